//! Throughput and p99 of the closed loop against the number of writers, as an image.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use plotters::prelude::*;

use super::row::Row;
use crate::failure::Failure;

const SIZE: (u32, u32) = (1100, 460);
/// Free space above the highest point, and beside the outermost.
const MARGIN: f64 = 1.15;

/// Where the image goes. Opened before anything is measured, so that a run is not lost to a wrong path; what is there
/// stays until there is another image.
#[derive(Debug)]
pub(super) struct Plot {
    path: PathBuf,
    file: File,
}

/// One curve: a strategy with a policy, as points of writers and figure.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Plot {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(|source| Failure::at("create", path, &source))?;
        Ok(Plot { path: path.to_owned(), file })
    }

    pub(super) fn write(mut self, rows: &[Row]) -> Result<(), Failure> {
        let image =
            draw(rows).map_err(|error| Failure::io(format!("draw {}: {error}", self.path.display())))?;
        self.replace_with(image.as_bytes()).map_err(|source| Failure::at("write", &self.path, &source))
    }

    fn replace_with(&mut self, image: &[u8]) -> io::Result<()> {
        // What is no file, such as a pipe, has nothing to be cut off.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(image)
    }
}

fn draw(rows: &[Row]) -> Result<String, Box<dyn Error>> {
    let mut image = String::new();
    {
        let root = SVGBackend::with_string(&mut image, SIZE).into_drawing_area();
        root.fill(&WHITE)?;
        let (left, right) = root.split_horizontally(SIZE.0 / 2);
        panel(&left, "Durable records per second", &curves(rows, |row| row.records_per_s))?;
        panel(&right, "p99 of an append, microseconds", &curves(rows, |row| row.p99_us))?;
        root.present()?;
    }
    Ok(image)
}

/// The curves in the order of their first rows.
#[expect(clippy::cast_precision_loss, reason = "a number of threads")]
fn curves(rows: &[Row], figure: fn(&Row) -> f64) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows.iter().filter(|row| row.workload == "closed") {
        let name = format!("{}, {} cohort", row.strategy, row.cohort);
        let point = (row.threads as f64, figure(row));
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|one, other| one.0.total_cmp(&other.0));
    }
    curves
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    curves: &[Curve],
) -> Result<(), Box<dyn Error>> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let fewest = all().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let most = all().map(|point| point.0).fold(1.0, f64::max);
    let highest = all().map(|point| point.1).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(70)
        .build_cartesian_2d(
            (fewest.min(most) / MARGIN..most * MARGIN).log_scale().base(2.0),
            0.0..highest * MARGIN,
        )?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("writers")
        .x_label_formatter(&|writers| format!("{writers:.0}"))
        .y_label_formatter(&|figure| format!("{figure:.0}"))
        .draw()?;
    for (index, curve) in curves.iter().enumerate() {
        let color = Palette99::pick(index).to_rgba();
        let points = curve.points.iter().copied();
        chart
            .draw_series(LineSeries::new(points.clone(), color.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
        chart.draw_series(points.map(|point| Circle::new(point, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
