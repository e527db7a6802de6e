//! The access trace as a picture: which record was touched when, colored by the thread that touched it.
//!
//! The horizontal axis is time, the vertical one the sampled records, in the order of their keys; a point is
//! one sampled access. A legend beside the picture, where it hides no point, names the color of each thread. If data
//! belong to threads, a thread's color is a band; if they do not, colors are mixed.

use std::collections::BTreeSet;
use std::path::Path;

use heddledb::{AccessTrace, TracedAccess, TracedTable, TracedThread};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::format::grouped;
use super::run::Findings;
use crate::failure::{Failure, Result};

/// Points in the picture at most: with some 90 bytes each the file stays below a megabyte.
const POINTS_MAX: usize = 8_000;
/// Threads that are named beside the picture at most.
const NAMED_MAX: usize = 24;
const SIZE: (u32, u32) = (1_120, 620);
/// Width that is left for the names.
const NAMES_WIDTH: u32 = 130;
/// So few records leave room for larger points.
const FEW_RECORDS: usize = 60;

/// Draws the trace, if one was asked for.
pub fn draw(findings: &Findings<'_>) -> Result {
    let options = &findings.plan.options;
    let Some(path) = &options.access_trace else { return Ok(()) };
    let wanted = options.access_trace_table.as_deref();
    let table = choose(findings.report.access_trace.as_ref(), wanted)?;
    let what = format!("{}, {}", findings.plan.workload.name(), findings.plan.protocol());
    picture(path, &what, table)
        .map_err(|error| Failure::Failed(format!("--access-trace {}: {error}", path.display())))
}

/// The table to draw: the one of this name, or the one that was touched most.
fn choose<'t>(trace: Option<&'t AccessTrace>, wanted: Option<&str>) -> Result<&'t TracedTable> {
    let tables = trace.map_or(&[][..], |trace| &trace.tables);
    let table = match wanted {
        None => tables.first(),
        Some(name) => tables.iter().find(|table| table.name == name),
    };
    table.ok_or_else(|| {
        let names: Vec<&str> = tables.iter().map(|table| &*table.name).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let wanted = wanted.map_or_else(String::new, |name| format!("{name:?} was not touched; "));
        Failure::Usage(format!("there is no access to draw: {wanted}touched were: {names}"))
    })
}

/// Draws one table.
fn picture(
    path: &Path,
    what: &str,
    table: &TracedTable,
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let samples = thin(&table.samples);
    let threads: BTreeSet<TracedThread> = samples.iter().map(|sample| sample.thread).collect();
    let threads: Vec<TracedThread> = threads.into_iter().collect();
    let last = samples.last().map_or(1.0, |sample| sample.at.as_secs_f64()).max(1e-6);
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 - NAMES_WIDTH);
    let radius = if table.keys.len() <= FEW_RECORDS { 3 } else { 2 };
    let shown = format!(
        "{what}: {} of {} accesses to {}",
        grouped(samples.len() as u64),
        grouped(table.accesses),
        table.name
    );
    let mut chart = ChartBuilder::on(&left)
        .caption(shown, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(110)
        .right_y_label_area_size(0)
        .build_cartesian_2d(0.0..last, -0.5..table.keys.len() as f64 - 0.5)?;
    let key_at = |place: &f64| {
        let at = place.round();
        if (place - at).abs() > 1e-6 || at < 0.0 {
            return String::new();
        }
        table.keys.get(at as usize).cloned().unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_mesh()
        .axis_desc_style(("sans-serif", 18))
        .label_style(("sans-serif", 15))
        .x_desc("time since the measured interval began, in seconds")
        .y_desc(format!("record of {}, by primary key", table.name))
        .y_label_formatter(&key_at)
        .y_labels(table.keys.len().clamp(2, 12))
        .draw()?;
    // In the order of time, not of threads: none hides the others.
    chart.draw_series(samples.iter().map(|sample| {
        let color = color(threads.partition_point(|thread| *thread < sample.thread));
        Circle::new((sample.at.as_secs_f64(), sample.key as f64), radius, color.mix(0.7).filled())
    }))?;
    name_threads(&right, &threads)?;
    root.present()?;
    Ok(())
}

/// Tells whose color is whose.
fn name_threads(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    threads: &[TracedThread],
) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let line = |number: usize| 54 + 22 * number as i32;
    for (number, thread) in threads.iter().take(NAMED_MAX).enumerate() {
        area.draw(&Circle::new((10, line(number)), 5, color(number).filled()))?;
        area.draw(&Text::new(name(*thread), (22, line(number) - 8), ("sans-serif", 16)))?;
    }
    if threads.len() > NAMED_MAX {
        let others = format!("and {} others", threads.len() - NAMED_MAX);
        area.draw(&Text::new(others, (22, line(NAMED_MAX) - 8), ("sans-serif", 16)))?;
    }
    Ok(())
}

/// So few samples that the file stays small, spread evenly.
fn thin(samples: &[TracedAccess]) -> Vec<&TracedAccess> {
    let step = samples.len().div_ceil(POINTS_MAX).max(1);
    samples.iter().step_by(step).collect()
}

fn name(thread: TracedThread) -> String {
    match thread {
        TracedThread::Executor(number) => format!("executor {number}"),
        TracedThread::Worker(number) => format!("thread {number}"),
    }
}

/// Colors that nearly all readers can distinguish; further threads reuse them.
fn color(number: usize) -> RGBColor {
    const COLORS: [RGBColor; 12] = [
        RGBColor(0, 114, 178),
        RGBColor(213, 94, 0),
        RGBColor(0, 158, 115),
        RGBColor(204, 121, 167),
        RGBColor(230, 159, 0),
        RGBColor(86, 180, 233),
        RGBColor(0, 0, 0),
        RGBColor(148, 103, 189),
        RGBColor(140, 0, 0),
        RGBColor(0, 92, 92),
        RGBColor(150, 150, 150),
        RGBColor(128, 128, 0),
    ];
    COLORS[number % COLORS.len()]
}
