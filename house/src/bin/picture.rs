//! Prints a picture (SVG) of a graph in the language of Graphviz.

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, io};

use clap::Parser;
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};

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
    Ok(svg.finalize())
}
