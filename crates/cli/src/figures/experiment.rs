//! Experiments as data: one TOML file for each, with the paper's claim, the benchmark's command lines, and the shape that the
//! paper shows.
//!
//! An experiment is a grid: panels (one plot each), series (one line each) and places on the horizontal axis. The options of all
//! three are appended to the command (those of the place first, since it may name the workload), so that a cell of the grid is one command line, and a pointer into the JSON of its run
//! is the value. Cells with the same command share its runs, also across experiments.
//!
//! Invariants: a file with an unknown key, a series or a place that does not exist, or a check without points does not parse;
//! a test parses them all.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::shape::Check;

/// An experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Its name on the command line and in links.
    pub id: String,
    /// The paper's id.
    pub paper: String,
    /// The figures and tables of the paper that it measures; none if the experiment is our own.
    #[serde(default)]
    pub figures: Vec<String>,
    pub title: String,
    /// The paper's statement, in our words.
    pub claim: String,
    /// Differences of the set-up from the paper's.
    pub note: Option<String>,
    /// The workload and its options, after `heddle bench`; none if places are of different workloads.
    #[serde(default)]
    command: String,
    /// Options of a full run.
    full: String,
    /// Options of a quick run.
    quick: String,
    pub x: Axis,
    pub y: Measure,
    #[serde(default)]
    panel: Vec<Panel>,
    pub series: Vec<Series>,
    pub check: Vec<Check>,
}

/// The horizontal axis: numbers, named points, or the time within a run.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Axis {
    pub label: String,
    #[serde(default)]
    pub scale: Scale,
    /// Options of a place; `{x}` is its number.
    #[serde(default)]
    options: String,
    #[serde(default)]
    values: Vec<f64>,
    /// The numbers of a quick run; a selection of `values`.
    #[serde(default)]
    quick: Vec<f64>,
    /// Named places instead of numbers.
    #[serde(default)]
    point: Vec<Point>,
    /// Leaves out numbers above that of the machine's processors.
    #[serde(default)]
    up_to_processors: bool,
    /// The value is a list of pairs of time and number.
    #[serde(default)]
    pub over_time: bool,
}

/// A scale of an axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    #[default]
    Linear,
    Log,
}

/// A named place.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Point {
    name: String,
    options: String,
    /// Further options of a quick run.
    #[serde(default)]
    quick: String,
}

/// The value that is drawn.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measure {
    pub label: String,
    #[serde(default)]
    pub scale: Scale,
    /// Pointer into the JSON of a run; of a list, its length counts.
    pub value: String,
    /// Pointer to a number by which it is divided.
    pub per: Option<String>,
    /// A factor, for other units.
    #[serde(default = "one")]
    pub times: f64,
}

/// A plot of its own.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    name: String,
    #[serde(default)]
    options: String,
    /// Instead of the experiment's own.
    y: Option<Measure>,
}

/// A line of a plot.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Series {
    pub name: String,
    #[serde(default)]
    options: String,
    /// Instead of the plot's own.
    value: Option<String>,
    /// The paper's numbers, by place, or by `panel/place`.
    #[serde(default)]
    pub paper: BTreeMap<String, f64>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug)]
pub struct Place {
    pub name: String,
    pub at: f64,
    options: String,
}

/// One plot of an experiment, with the commands of its cells.
pub struct Plot<'e> {
    /// Its name; empty if the experiment has only one.
    pub name: &'e str,
    pub y: &'e Measure,
    pub lines: Vec<Line<'e>>,
}

/// One series of a plot.
pub struct Line<'e> {
    pub series: &'e Series,
    pub value: &'e str,
    /// A place, and the command that measures there.
    pub cells: Vec<(Place, String)>,
}

/// The size of the runs, and the machine's processors.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub quick: bool,
    pub processors: usize,
}

fn one() -> f64 {
    1.0
}

impl Axis {
    /// Returns true if places have names rather than numbers.
    pub fn is_named(&self) -> bool {
        !self.point.is_empty()
    }

    /// The places of a run of this size.
    pub fn places(&self, size: Size) -> Vec<Place> {
        if self.over_time {
            return vec![Place { name: String::new(), at: 0.0, options: self.options.clone() }];
        }
        let named = self.point.iter().enumerate().map(|(at, point)| {
            let quick = if size.quick { point.quick.as_str() } else { "" };
            let options = joined([point.options.as_str(), quick]);
            Place { name: point.name.clone(), at: at as f64, options }
        });
        let values = if size.quick { &self.quick } else { &self.values };
        let fits = |value: &&f64| !self.up_to_processors || **value <= size.processors as f64;
        let numbers = values.iter().filter(fits).map(|&at| {
            let name = at.to_string();
            Place { options: self.options.replace("{x}", &name), name, at }
        });
        named.chain(numbers).collect()
    }
}

impl Experiment {
    /// Reads an experiment.
    ///
    /// # Errors
    /// A description of the mistake in the file.
    pub fn parse(text: &str) -> Result<Experiment, String> {
        let experiment: Experiment = toml::from_str(text).map_err(|error| error.to_string())?;
        experiment.validate().map_err(|wrong| format!("{}: {wrong}", experiment.id))?;
        Ok(experiment)
    }

    fn validate(&self) -> Result<(), String> {
        let kinds = [!self.x.values.is_empty(), self.x.is_named(), self.x.over_time];
        if kinds.iter().filter(|is_there| **is_there).count() != 1 {
            return Err("the axis has one of values, points and over-time".to_owned());
        }
        if !self.x.values.is_empty() && self.x.quick.len() < 2 {
            return Err("a quick run needs two values".to_owned());
        }
        if self.check.is_empty() {
            return Err("there is no check of the shape".to_owned());
        }
        if let Some(value) = self.x.quick.iter().find(|value| !self.x.values.contains(value)) {
            return Err(format!("the quick value {value} is not among all values"));
        }
        // More processors than any machine has, so that no place is left out.
        let sizes = [true, false].map(|quick| Size { quick, processors: usize::MAX });
        sizes.iter().try_for_each(|size| {
            let places = self.x.places(*size);
            self.check.iter().try_for_each(|check| self.validate_check(check, &places))
        })
    }

    fn validate_check(&self, check: &Check, places: &[Place]) -> Result<(), String> {
        let wrong = |what: String| Err(format!("{:?}: {what}", check.says));
        let names = check.shape.series();
        if let Some(name) = names.iter().find(|name| !self.series.iter().any(|series| series.name == **name))
        {
            return wrong(format!("there is no series {name}"));
        }
        if let Some(panel) = &check.panel
            && !self.panel.iter().any(|other| other.name == *panel)
        {
            return wrong(format!("there is no panel {panel}"));
        }
        let selected = places.iter().filter(|place| check.is_at(&place.name, place.at)).count();
        if !self.x.over_time && selected < check.shape.points_min() {
            return wrong(format!("{selected} places are too few"));
        }
        match check.at.iter().find(|name| !places.iter().any(|place| place.name == **name)) {
            Some(name) => wrong(format!("there is no place {name}")),
            None => Ok(()),
        }
    }

    /// The plots, with all commands.
    pub fn plots(&self, size: Size) -> Vec<Plot<'_>> {
        let only = Panel::default();
        if self.panel.is_empty() {
            return vec![self.plot("", &only.options, None, size)];
        }
        self.panel
            .iter()
            .map(|panel| self.plot(&panel.name, &panel.options, panel.y.as_ref(), size))
            .collect()
    }

    fn plot<'e>(&'e self, name: &'e str, options: &str, y: Option<&'e Measure>, size: Size) -> Plot<'e> {
        let y = y.unwrap_or(&self.y);
        let line = |series: &'e Series| {
            let cell = |place: Place| {
                let own = if size.quick { &self.quick } else { &self.full };
                let command = joined([
                    self.command.as_str(),
                    place.options.as_str(),
                    options,
                    series.options.as_str(),
                    own.as_str(),
                ]);
                (place, command)
            };
            let cells = self.x.places(size).into_iter().map(cell).collect();
            Line { series, value: series.value.as_deref().unwrap_or(&y.value), cells }
        };
        Plot { name, y, lines: self.series.iter().map(line).collect() }
    }

    /// The commands of all cells, each once.
    pub fn commands(&self, size: Size) -> Vec<String> {
        let mut commands = Vec::new();
        for (_, command) in
            self.plots(size).into_iter().flat_map(|plot| plot.lines).flat_map(|line| line.cells)
        {
            if !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    /// The keys of a run's JSON that the experiment needs.
    pub fn keys(&self) -> Vec<String> {
        let measures = self.panel.iter().filter_map(|panel| panel.y.as_ref()).chain([&self.y]);
        let of_measures = measures.flat_map(|y| [Some(&y.value), y.per.as_ref()]).flatten();
        let pointers = of_measures.chain(self.series.iter().filter_map(|series| series.value.as_ref()));
        pointers.filter_map(|pointer| Some(pointer.split('/').nth(1)?.to_owned())).collect()
    }

    /// Returns true if the machine has too few processors for two places.
    pub fn lacks_processors(&self, size: Size) -> bool {
        self.x.up_to_processors && self.x.places(size).len() < 2
    }
}

/// Options in one line, with one space between two.
fn joined<'t>(parts: impl IntoIterator<Item = &'t str>) -> String {
    let words: Vec<&str> = parts.into_iter().flat_map(str::split_whitespace).collect();
    words.join(" ")
}
