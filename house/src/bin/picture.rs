//! Prints a picture (SVG) of a graph in the language of Graphviz.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

use clap::Parser;
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

/// Free space below the lowest box.
const MARGIN: u32 = 30;
const BACKGROUND: &str = r#"<rect width="100%" height="100%" fill="white"/>"#;

/// Prints a picture (SVG) of a graph.
#[derive(Parser)]
struct Args {
    /// The graph.
    graph: PathBuf,
}

/// The reason why there is no picture.
#[derive(Debug, thiserror::Error)]
enum PictureError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("{path}: {reason}")]
    Graph { path: PathBuf, reason: String },
}

fn main() -> ExitCode {
    match picture(Args::parse().graph) {
        Ok(svg) => {
            println!("{}", svg.trim_end());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn picture(path: PathBuf) -> Result<String, PictureError> {
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(source) => return Err(PictureError::File { path, source }),
    };
    let graph = match DotParser::new(&text).process() {
        Ok(graph) => graph,
        Err(reason) => return Err(PictureError::Graph { path, reason }),
    };
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&graph);
    let mut svg = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut svg);
    Ok(framed(&svg.finalize()))
}

/// Returns the picture cut below its lowest box, on a white background: it is read on dark pages too.
fn framed(svg: &str) -> String {
    let boxes = svg.split("<rect ").skip(1);
    let bottoms = boxes.filter_map(|text| Some(number(text, "y")? + number(text, "height")?));
    let height = bottoms.max().unwrap_or_default() + MARGIN;
    let width = number(svg, "width").unwrap_or_default();
    let body = svg.split_once("xmlns=").map_or(svg, |(_, body)| body);
    let (head, rest) = body.split_once("<style>").unwrap_or(("", body));
    let (fonts, rest) = rest.split_once("</style>").unwrap_or(("", rest));
    // The layout keeps them in a map without an order.
    let mut fonts: Vec<&str> = fonts.trim().lines().collect();
    fonts.sort_unstable();
    let fonts = fonts.join("\n");
    format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         xmlns={head}<style>\n{fonts}\n</style>\n{BACKGROUND}{rest}"
    )
}

/// Returns the whole part of the first attribute of this name.
fn number(text: &str, attribute: &str) -> Option<u32> {
    let (_, rest) = text.split_once(&format!("{attribute}=\""))?;
    rest.split(['"', '.']).next()?.parse().ok()
}
