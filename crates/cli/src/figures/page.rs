//! The page: for each experiment the paper's claim and numbers, what was measured, and whether the shape agrees.
//!
//! One file without scripts, fonts or other files, so that it can be sent and opened anywhere.

use std::fmt::Write;

use heddle_sql::types::datetime::{UNIX_EPOCH_DAYS, civil_from_days};

use super::catalog::Paper;
use super::number::short;
use super::outcome::{Checked, Drawn, Outcome, Status};
use super::plot::{self, escaped};
use super::results::Machine;

const STYLE: &str = include_str!("page.css");

/// The circumstances of the measurement.
pub struct Circumstances<'c> {
    pub machine: &'c Machine,
    /// The first and the last second since 1970 at which a run began.
    pub time_span: Option<(u64, u64)>,
    pub quick: bool,
    pub rounds: usize,
}

/// The whole page.
pub fn page(outcomes: &[Outcome<'_>], papers: &[Paper], circumstances: &Circumstances<'_>) -> String {
    let mut body = String::new();
    introduction(&mut body, outcomes, circumstances);
    contents(&mut body, outcomes, papers);
    for paper in papers {
        let _ = write!(
            body,
            "<h2>{}</h2><p class=\"dim\">{}: {} ({}).</p>",
            escaped(&paper.system),
            escaped(&paper.authors),
            escaped(&paper.title),
            paper.year
        );
        outcomes
            .iter()
            .filter(|outcome| outcome.experiment.paper == paper.id)
            .for_each(|outcome| section(&mut body, outcome));
    }
    let own: Vec<_> = outcomes.iter().filter(|outcome| outcome.experiment.paper == "own").collect();
    if !own.is_empty() {
        body.push_str("<h2>HeddleDB</h2><p class=\"dim\">Experiments of our own.</p>");
        own.into_iter().for_each(|outcome| section(&mut body, outcome));
    }
    not_here(&mut body, papers);
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width,initial-scale=1\"><title>HeddleDB: figures of five papers</title><style>\n{}{STYLE}</style>\
         </head><body>\n{body}</body></html>\n",
        plot::STYLE
    )
}

fn introduction(body: &mut String, outcomes: &[Outcome<'_>], circumstances: &Circumstances<'_>) {
    let Circumstances { machine, time_span, quick, rounds } = circumstances;
    let when = time_span.map_or_else(String::new, |(first, last)| {
        let (first, last) = (date(first), date(last));
        if first == last { format!("On {first}. ") } else { format!("From {first} to {last}. ") }
    });
    let statistic = match (quick, rounds) {
        (true, 1) => {
            "Quick: one short run on little data for each point, which shows that everything completes. Differences \
                      of a few tenths mean nothing here"
        }
        (_, 1) => "One run for each point",
        _ => "Points are medians; vertical bars reach from the smallest to the largest run",
    };
    let _ = write!(
        body,
        "<h1>Figures of five papers, measured with HeddleDB</h1>\
         <p>HeddleDB makes one engine of the ideas of five papers. This page repeats their experiments with <code>heddle \
         bench</code>. Rates of the papers' machines cannot be compared with today's; shapes can: which line is ahead, by which \
         factor, and where lines cross. Each experiment says whether the paper's shape is found here.</p>\
         <p class=\"dim\">{when}{} processors ({}), {} GiB of memory, {}. {statistic}. Every run verified its own database.</p>",
        machine.processors,
        escaped(&machine.model),
        machine.memory_gib,
        escaped(&machine.system)
    );
    let count = |status| outcomes.iter().filter(|outcome| outcome.status == status).count();
    let all = [Status::Agrees, Status::Differs, Status::Broken, Status::NotMeasured, Status::NotPossible];
    let counts = all.into_iter().filter(|&status| count(status) > 0);
    let counts: Vec<String> = counts.map(|status| format!("{} {}", count(status), badge(status))).collect();
    let _ = write!(body, "<p>{} experiments: {}</p>", outcomes.len(), counts.join(" "));
}

/// The table of all experiments.
fn contents(body: &mut String, outcomes: &[Outcome<'_>], papers: &[Paper]) {
    body.push_str("<div class=\"wide\"><table><tr><th>Paper</th><th>Experiment</th><th>Shape</th></tr>");
    for outcome in outcomes {
        let experiment = outcome.experiment;
        let paper = papers.iter().find(|paper| paper.id == experiment.paper);
        let source = paper.map_or_else(
            || "HeddleDB".to_owned(),
            |paper| format!("{}, {}", paper.system, figures(&experiment.figures)),
        );
        let _ = write!(
            body,
            "<tr><td>{}</td><td><a href=\"#{}\">{}</a></td><td>{}</td></tr>",
            escaped(&source),
            experiment.id,
            escaped(&experiment.title),
            badge(outcome.status)
        );
    }
    body.push_str("</table></div>");
}

/// "figures 3, 4 and table 1" in the short form of captions.
fn figures(names: &[String]) -> String {
    names.join(", ").to_lowercase()
}

fn badge(status: Status) -> String {
    let class = match status {
        Status::Agrees => "agrees",
        Status::Differs => "differs",
        Status::Broken => "broken",
        Status::NotMeasured => "not-measured",
        Status::NotPossible => "not-possible",
    };
    format!("<span class=\"badge {class}\">{}</span>", status.words())
}

fn section(body: &mut String, outcome: &Outcome<'_>) {
    let experiment = outcome.experiment;
    let figures = match experiment.figures.as_slice() {
        [] => String::new(),
        names => format!(" <span class=\"dim\">{}</span>", escaped(&figures(names))),
    };
    let _ = write!(
        body,
        "<section id=\"{}\"><header><h3>{}</h3>{figures} {}</header><p>{}</p>",
        experiment.id,
        escaped(&experiment.title),
        badge(outcome.status),
        escaped(experiment.claim.trim())
    );
    for reason in &outcome.reasons {
        let _ = write!(body, "<p><strong>{}.</strong></p>", escaped(reason));
    }
    let has_points = outcome.plots.iter().flat_map(|plot| &plot.lines).any(|line| !line.points.is_empty());
    // A wrong run must not look right: its figure is not drawn.
    if has_points && outcome.status != Status::Broken {
        body.push_str("<div class=\"plots\">");
        for drawn in &outcome.plots {
            body.push_str(&plot::svg(drawn, &experiment.x, &experiment.title, false));
        }
        body.push_str("</div>");
        checks(body, &outcome.checks);
    }
    if let Some(note) = &experiment.note {
        let _ = write!(body, "<p class=\"dim\">{}</p>", escaped(note.trim()));
    }
    body.push_str("<details><summary>Numbers and commands</summary>");
    if outcome.status != Status::Broken {
        outcome.plots.iter().for_each(|drawn| numbers(body, drawn, &experiment.x.label));
    }
    let _ = write!(body, "<p>{} commands:</p><pre><code>", outcome.commands.len());
    for command in &outcome.commands {
        let _ = writeln!(body, "heddle bench {}", escaped(command));
    }
    body.push_str("</code></pre></details></section>\n");
}

fn checks(body: &mut String, checks: &[Checked<'_>]) {
    body.push_str("<ul class=\"checks\">");
    for Checked { check, verdict } in checks {
        let class = match verdict {
            Some(verdict) if verdict.agrees => "yes",
            Some(_) => "no",
            None => "",
        };
        let _ = write!(body, "<li class=\"{class}\">{}", escaped(&check.says));
        let paper = check.paper.as_ref().map(|paper| format!("paper: {paper}"));
        let here = verdict.as_ref().map(|verdict| format!("here: {}", verdict.measured));
        let numbers: Vec<String> = paper.into_iter().chain(here).collect();
        if !numbers.is_empty() {
            let _ = write!(body, " <span class=\"dim\">({})</span>", escaped(&numbers.join("; ")));
        }
        body.push('.');
        if let (Some(why), Some(false)) = (&check.why, verdict.as_ref().map(|verdict| verdict.agrees)) {
            let _ = write!(body, " {}", escaped(why.trim()));
        }
        body.push_str("</li>");
    }
    body.push_str("</ul>");
}

/// The table of one plot: a row for each place, and the paper's numbers beside those measured.
fn numbers(body: &mut String, drawn: &Drawn<'_>, label: &str) {
    let caption = if drawn.name.is_empty() { String::new() } else { format!("{}: ", drawn.name) };
    let _ = write!(
        body,
        "<p>{}{}</p><div class=\"wide\"><table><tr><th>{}</th>",
        escaped(&caption),
        escaped(&drawn.y.label),
        escaped(label)
    );
    for line in &drawn.lines {
        let _ = write!(body, "<th class=\"number\">{}</th>", escaped(line.name));
        if !line.paper.is_empty() {
            body.push_str("<th class=\"number dim\">paper</th>");
        }
    }
    body.push_str("</tr>");
    let mut places: Vec<&str> = Vec::new();
    for point in drawn.lines.iter().flat_map(|line| &line.points) {
        if !places.contains(&&*point.place) {
            places.push(&point.place);
        }
    }
    for place in places {
        let _ = write!(body, "<tr><td>{}</td>", escaped(place));
        for line in &drawn.lines {
            let cell =
                line.points.iter().find(|point| point.place == place).map_or_else(String::new, |point| {
                    if point.max > point.min {
                        format!(
                            "{} <span class=\"dim\">{}–{}</span>",
                            short(point.value),
                            short(point.min),
                            short(point.max)
                        )
                    } else {
                        short(point.value)
                    }
                });
            let _ = write!(body, "<td class=\"number\">{cell}</td>");
            if !line.paper.is_empty() {
                let theirs = line.paper.iter().find(|(name, _)| name == place);
                let theirs = theirs.map_or_else(String::new, |(_, number)| short(*number));
                let _ = write!(body, "<td class=\"number dim\">{theirs}</td>");
            }
        }
        body.push_str("</tr>");
    }
    body.push_str("</table></div>");
}

/// The figures that are not measured.
fn not_here(body: &mut String, papers: &[Paper]) {
    body.push_str(
        "<h2>Figures that are not on this page</h2><div class=\"wide\"><table><tr><th>Paper</th><th>Figure</th><th>Reason</th></tr>",
    );
    for paper in papers {
        for absent in &paper.absent {
            let _ = write!(
                body,
                "<tr><td>{}</td><td>{}</td><td>{}</td></tr>",
                escaped(&paper.system),
                escaped(&absent.figure.to_lowercase()),
                escaped(&absent.reason)
            );
        }
    }
    body.push_str("</table></div>");
}

/// The day of a second since 1970.
fn date(seconds: u64) -> String {
    let days = (seconds / 86_400) as i64 - i64::from(UNIX_EPOCH_DAYS);
    let (year, month, day) = civil_from_days(days);
    format!("{year}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_those_of_the_calendar() {
        assert_eq!(
            [date(0), date(951_782_400), date(1_796_000_000)],
            ["1970-01-01", "2000-02-29", "2026-11-30"]
        );
    }
}
