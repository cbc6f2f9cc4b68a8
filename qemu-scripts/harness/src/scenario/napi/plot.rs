//! What `napi-weight` found, as a picture: throughput and interrupts over the weight, a
//! panel for each direction.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::super::Findings;
use super::super::guests::Kind;
use super::{Direction, NapiWeight, Point, Replenish, Sample, Setup};
use crate::measure::Summary;
use crate::measure::table::number;

/// A panel's size, in pixels.
const PANEL: (u32, u32) = (440, 330);
/// The height of what stands above the panels, and below them.
const TITLE: u32 = 58;
const LEGEND: u32 = 66;
/// How far beside its weight a mark is that no line leads to.
const ASIDE: f64 = 0.16;
const FONT: &str = "sans-serif";
/// Colours that people who see few colours can tell apart (Okabe and Ito's).
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// What a row of panels shows.
struct Figure {
    axis: &'static str,
    of: fn(&Sample) -> Option<f64>,
}

const FIGURES: [Figure; 2] = [
    Figure {
        axis: "throughput, all streams, Mbit/s",
        of: |sample| Some(sample.tx + sample.rx),
    },
    Figure {
        axis: "interrupts/s",
        of: |sample| Some(sample.pace.interrupts),
    },
];

/// How marks look, and whose they are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    /// A line with filled circles.
    In,
    /// A dashed line with empty circles.
    After,
    /// Triangles.
    WithoutTso,
    /// Crosses.
    Linux,
}

impl Look {
    const ALL: [Self; 4] = [Self::In, Self::After, Self::WithoutTso, Self::Linux];

    fn says(self) -> &'static str {
        match self {
            Self::In => "replenish in the poll",
            Self::After => "replenish after the poll",
            Self::WithoutTso => "in the poll, TSO off",
            Self::Linux => "Linux, TSO on",
        }
    }

    /// The setup of that look at `weight`, if there is one.
    fn setup(self, weight: u32) -> Option<Setup> {
        let uniperf = |replenish, tso| Setup::Uniperf {
            weight,
            replenish,
            tso,
        };
        match self {
            Self::In => Some(uniperf(Replenish::In, true)),
            Self::After => Some(uniperf(Replenish::After, true)),
            Self::WithoutTso => Some(uniperf(Replenish::In, false)),
            Self::Linux => {
                let linux = Setup::Linux { tso: true };
                (linux.weight() == weight).then_some(linux)
            }
        }
    }

    fn aside(self) -> f64 {
        match self {
            Self::In | Self::After => 0.0,
            Self::WithoutTso => -ASIDE,
            Self::Linux => ASIDE,
        }
    }
}

/// The picture.
///
/// # Errors
///
/// It cannot be drawn.
pub fn svg(scenario: &NapiWeight, findings: &Findings<NapiWeight>) -> Result<String> {
    let plot = Plot { scenario, findings };
    let mut text = String::new();
    plot.draw(&mut text)
        .map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(text)
}

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;

struct Plot<'a> {
    scenario: &'a NapiWeight,
    findings: &'a Findings<NapiWeight>,
}

impl Plot<'_> {
    fn draw(&self, text: &mut String) -> Drawn {
        let columns = self.scenario.directions.len() as u32;
        // The legend needs the width of two panels.
        let width = columns.max(2) * PANEL.0;
        let height = TITLE + FIGURES.len() as u32 * PANEL.1 + LEGEND;
        let root = SVGBackend::with_string(text, (width, height)).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, rest) = root.split_vertically(TITLE);
        let (body, foot) = rest.split_vertically(height - TITLE - LEGEND);
        self.title(&head)?;
        let panels = body.split_evenly((FIGURES.len(), columns as usize));
        for (row, figure) in panels.chunks(columns as usize).zip(&FIGURES) {
            let highest = self.highest(figure);
            for (panel, &direction) in row.iter().zip(&self.scenario.directions) {
                self.panel(panel, figure, direction, highest)?;
            }
        }
        self.legend(&foot)?;
        root.present()
    }

    fn title(&self, area: &Area<'_>) -> Drawn {
        let about = &self.findings.about;
        let title = format!(
            "napi-weight: throughput and interrupts over the NAPI weight, uniperf {}",
            about.uniperf
        );
        let linux = about
            .linux
            .as_deref()
            .map_or(String::new(), |linux| format!(" beside {linux}"));
        let second = format!(
            "QEMU {}, {}, rx=napi{linux}; medians, and the range, of {} {} of {} s, {}{}",
            about.qemu,
            self.scenario.common.nic,
            self.findings.rounds.wanted,
            plural(self.findings.rounds.wanted, "round"),
            self.scenario.common.seconds,
            about.date,
            match about.noise().as_str() {
                "" => String::new(),
                _ => format!(
                    "; this machine was {:.0} % busy with other work",
                    about.busy
                ),
            }
        );
        area.draw(&Text::new(title, (16, 12), (FONT, 19)))?;
        area.draw(&Text::new(second, (16, 36), (FONT, 13)))
    }

    /// The height that all panels of a row have in common.
    fn highest(&self, figure: &Figure) -> f64 {
        let samples = self.findings.samples.values().flatten();
        let highest = samples.filter_map(figure.of).fold(0.0, f64::max);
        if highest > 0.0 { highest * 1.08 } else { 1.0 }
    }

    /// Where the marks of one look are: the weight's place, and the figure there.
    fn marks(&self, figure: &Figure, point: Point, look: Look) -> Vec<(f64, Summary)> {
        let weights = self.scenario.weights.iter().enumerate();
        let mark = |(place, &weight): (usize, &u32)| {
            let setup = look.setup(weight)?;
            let summary = self.findings.summary(setup, point, figure.of)?;
            Some((place as f64 + look.aside(), summary))
        };
        weights.filter_map(mark).collect()
    }

    fn panel(&self, area: &Area<'_>, figure: &Figure, direction: Direction, top: f64) -> Drawn {
        let weights = &self.scenario.weights;
        let right = weights.len() as f64 - 0.5;
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .caption(caption(direction), (FONT, 15))
            .x_label_area_size(38)
            .y_label_area_size(64)
            .build_cartesian_2d(-0.5..right, 0.0..top)?;
        let weight = |place: &f64| {
            let weight = weights.get(place.round() as usize);
            let near = (place - place.round()).abs() < ASIDE;
            weight
                .filter(|_| near)
                .map_or(String::new(), u32::to_string)
        };
        chart
            .configure_mesh()
            .disable_x_mesh()
            .x_labels(weights.len())
            .light_line_style(TRANSPARENT)
            .x_desc("NAPI weight, frames")
            .y_desc(figure.axis)
            .x_label_formatter(&weight)
            .y_label_formatter(&|value| match *value {
                0.0 => "0".into(),
                value => number(value),
            })
            .label_style((FONT, 12))
            .axis_desc_style((FONT, 13))
            .draw()?;
        for (&streams, colour) in self.scenario.streams.iter().zip(COLOURS.iter().cycle()) {
            let point = Point { direction, streams };
            for look in Look::ALL {
                let marks = self.marks(figure, point, look);
                let median = |(place, summary): &(f64, Summary)| (*place, summary.median);
                let line: Vec<_> = marks.iter().map(median).collect();
                let stroke = colour.stroke_width(2);
                match look {
                    Look::In => {
                        chart.draw_series(LineSeries::new(line, stroke))?;
                    }
                    Look::After => {
                        chart.draw_series(DashedLineSeries::new(line, 5, 4, stroke))?;
                    }
                    Look::WithoutTso | Look::Linux => {}
                }
                let range = |(place, summary): &(f64, Summary)| {
                    let range = vec![(*place, summary.min), (*place, summary.max)];
                    PathElement::new(range, colour.stroke_width(1))
                };
                chart.draw_series(marks.iter().map(range))?;
                let area = chart.plotting_area().strip_coord_spec();
                let (left, above) = area.get_base_pixel();
                for mark in &marks {
                    let (x, y) = chart.backend_coord(&median(mark));
                    draw_mark(&area, (x - left, y - above), look, *colour)?;
                }
            }
        }
        Ok(())
    }

    /// Says in two lines whose colour and whose mark is whose.
    fn legend(&self, area: &Area<'_>) -> Drawn {
        let mut x = 24;
        for (streams, colour) in self.scenario.streams.iter().zip(COLOURS.iter().cycle()) {
            area.draw(&Rectangle::new([(x, 11), (x + 18, 21)], colour.filled()))?;
            let text = format!("{streams} {}", plural(*streams, "stream"));
            x = label(area, x + 24, 16, text)?;
        }
        let mut x = 24;
        let linux = self.scenario.common.kinds().contains(&Kind::Linux);
        let shown = |look: &&Look| **look != Look::Linux || linux;
        for look in Look::ALL.iter().filter(shown) {
            let line = [(x, 44), (x + 30, 44)];
            match look {
                Look::In => area.draw(&PathElement::new(line, BLACK.stroke_width(2)))?,
                Look::After => {
                    let line = DashedPathElement::new(line, 5, 4, BLACK.stroke_width(2));
                    area.draw(&line)?;
                }
                Look::WithoutTso | Look::Linux => {}
            }
            draw_mark(area, (x + 15, 44), *look, BLACK)?;
            x = label(area, x + 38, 44, look.says())?;
        }
        Ok(())
    }
}

fn plural(count: u32, what: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{what}{ending}")
}

fn caption(direction: Direction) -> &'static str {
    match direction {
        Direction::Tx => "the guest sends",
        Direction::Rx => "the guest receives",
        Direction::Both => "both at once",
    }
}

fn draw_mark(area: &Area<'_>, at: (i32, i32), look: Look, colour: RGBColor) -> Drawn {
    match look {
        Look::In => area.draw(&Circle::new(at, 4, colour.filled())),
        Look::After => {
            area.draw(&Circle::new(at, 4, WHITE.filled()))?;
            area.draw(&Circle::new(at, 4, colour.stroke_width(2)))
        }
        Look::WithoutTso => area.draw(&TriangleMarker::new(at, 5, colour.filled())),
        Look::Linux => area.draw(&Cross::new(at, 4, colour.stroke_width(2))),
    }
}

/// Writes `text` to the right of a place, and returns where the next one may begin.
fn label(
    area: &Area<'_>,
    x: i32,
    y: i32,
    text: impl Into<String>,
) -> Result<i32, DrawingAreaErrorKind<std::io::Error>> {
    let text = text.into();
    let style = TextStyle::from((FONT, 13).into_font()).pos(Pos::new(HPos::Left, VPos::Center));
    let width = 8 * text.chars().count() as i32;
    area.draw(&Text::new(text, (x, y), style))?;
    Ok(x + width + 16)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{findings, scenario};
    use super::*;

    fn texts(svg: &str) -> Vec<String> {
        let document = roxmltree::Document::parse(svg).unwrap();
        let texts = document
            .descendants()
            .filter(|node| node.has_tag_name("text"));
        texts
            .filter_map(|node| Some(node.text()?.trim().to_owned()))
            .collect()
    }

    #[test]
    fn the_picture_has_axes_with_units_and_a_legend() {
        let svg = svg(&scenario(), &findings()).unwrap();
        let texts = texts(&svg);
        let count = |text: &str| texts.iter().filter(|other| *other == text).count();
        assert_eq!(count("throughput, all streams, Mbit/s"), 3, "{texts:?}");
        assert_eq!(count("interrupts/s"), 3);
        assert_eq!(count("NAPI weight, frames"), 6);
        assert_eq!(count("both at once"), 2);
        for label in [
            "1 stream",
            "10 streams",
            "Linux, TSO on",
            "replenish in the poll",
        ] {
            assert_eq!(count(label), 1, "{label}: {texts:?}");
        }
        // Each weight is named once below each panel, and nothing between them.
        assert_eq!((count("8"), count("64")), (6, 6), "{texts:?}");
        // A filled circle for each figure, and one in the legend.
        let drawn = roxmltree::Document::parse(&svg).unwrap();
        let circles = drawn
            .descendants()
            .filter(|node| node.has_tag_name("circle"));
        assert!(circles.count() > 10);
    }

    #[test]
    fn a_single_weight_and_nothing_measured_are_drawn_too() {
        let mut scenario = scenario();
        scenario.weights = vec![16];
        scenario.directions = vec![Direction::Rx];
        scenario.common.linux = false;
        let mut findings = findings();
        findings.samples.clear();
        findings.about.linux = Some("Linux <&>".into());
        let texts = texts(&svg(&scenario, &findings).unwrap());
        assert!(texts.iter().any(|text| text == "16"), "{texts:?}");
        assert!(texts.iter().any(|text| text.contains("Linux <&>")));
        assert!(!texts.iter().any(|text| text == "Linux, TSO on"));
    }
}
