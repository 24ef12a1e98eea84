//! The first document of a text, as a tree.

use std::borrow::Cow;
use std::collections::HashMap;

use granit_parser::{Event, Options, Parser, ScalarStyle, Span};

use super::error::YamlError;
use super::scalar::Scalar;
use crate::schema::depth::{MAX_LEVELS, TooDeep};

/// The nodes of a document in the order of the text: what is in a list or a map follows it.
#[derive(Debug, Default)]
pub struct Document<'t> {
    nodes: Vec<Node<'t>>,
}

/// A part of a document.
#[derive(Debug)]
pub struct Node<'t> {
    /// The line where it begins, from one.
    pub line: usize,
    /// The value of the node.
    pub kind: Kind<'t>,
}

/// The value of a node.
#[derive(Debug)]
pub enum Kind<'t> {
    /// A text, or what is written as one.
    Scalar(Scalar<'t>),
    /// A list, which ends before this node.
    List(usize),
    /// A map, which ends before this node. Keys and values alternate.
    Map(usize),
    /// Another node, earlier in the document.
    Alias(usize),
}

impl<'t> Document<'t> {
    /// Reads the first document of a text. What is behind it does not matter.
    ///
    /// # Errors
    /// If it is no YAML, is nested too deeply, or has an alias within what the alias stands for.
    pub fn first(text: &'t str) -> Result<Self, YamlError> {
        let mut builder = Builder {
            text,
            ..Builder::default()
        };
        for event in Parser::new_from_str_with_options(text, options()) {
            match event? {
                (Event::DocumentEnd, _) => break,
                (event, span) => builder.add_event(event, &span)?,
            }
        }
        Ok(builder.document)
    }

    /// Returns the place of the first node; none where there is no document.
    pub fn root(&self) -> Option<usize> {
        (!self.nodes.is_empty()).then_some(0)
    }

    /// Returns the node in a place.
    pub fn node(&self, at: usize) -> &Node<'t> {
        &self.nodes[at]
    }

    /// Returns the place of what a node stands for: its own, unless it is an alias.
    pub fn followed(&self, at: usize) -> usize {
        match self.nodes[at].kind {
            Kind::Alias(target) => target,
            _ => at,
        }
    }

    /// Returns the place behind a node and all that is in it.
    pub fn behind(&self, at: usize) -> usize {
        match self.nodes[at].kind {
            Kind::List(end) | Kind::Map(end) => end,
            Kind::Scalar(_) | Kind::Alias(_) => at + 1,
        }
    }

    /// Returns the places of the nodes from the one behind `at` up to an `end`, without what is in
    /// them.
    pub fn inside(&self, at: usize, end: usize) -> impl Iterator<Item = usize> {
        let mut next = at + 1;
        std::iter::from_fn(move || {
            let item = (next < end).then_some(next)?;
            next = self.behind(item);
            Some(item)
        })
    }
}

/// Returns the options of the parser. It looks ahead of its events, so that it counts levels, too.
pub(super) fn options() -> Options {
    let mut options = granit_parser::options! {
        block_nesting_limit: MAX_LEVELS,
        emit_anchor_events: true,
        flow_nesting_limit: MAX_LEVELS,
    };
    options.set_emit_comments(false);
    options
}

/// A document that is being read.
#[derive(Default)]
struct Builder<'t> {
    text: &'t str,
    document: Document<'t>,
    /// Places of the lists and maps that are open.
    open: Vec<usize>,
    /// Places of the nodes with an anchor.
    anchors: HashMap<usize, usize>,
}

impl<'t> Builder<'t> {
    /// Adds what an event is about.
    fn add_event(&mut self, event: Event<'t>, span: &Span) -> Result<(), YamlError> {
        let tag = span.tag_start.map_or(usize::MAX, |tag| tag.line());
        let line = span.start.line().min(tag);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let (text, line) = if is_block {
                    let head = self.head_line(span, &text);
                    (self.as_it_ends(span, text), line.min(head))
                } else {
                    (text, line)
                };
                let scalar = Scalar::new(text, style, tag.as_deref());
                self.add(anchor, line, Kind::Scalar(scalar));
            }
            Event::SequenceStart(_, anchor, _) => self.add_open(anchor, line, Kind::List(0))?,
            Event::MappingStart(_, anchor, _) => self.add_open(anchor, line, Kind::Map(0))?,
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.add_alias(anchor, line)?,
            // It follows the node that it belongs to.
            Event::Anchor(..) => {
                if let Some(node) = self.document.nodes.last_mut() {
                    node.line = node.line.min(line);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the line of the head of a block scalar. The parser says that it begins with its first
    /// line that is not blank, unless it has none before the end of the text.
    fn head_line(&self, span: &Span, scalar: &str) -> usize {
        let start = span.start.byte_offset().unwrap_or_default();
        let (before, behind) = self.text.split_at(self.text.floor_char_boundary(start));
        if scalar.trim_end().is_empty() && behind.starts_with(['|', '>']) {
            return span.start.line();
        }
        let head = before.trim_end_matches([' ', '\t', '\r', '\n']);
        let blank = before[head.len()..].replace("\r\n", "\n");
        let lines = blank.matches(['\r', '\n']).count();
        span.start.line().saturating_sub(lines)
    }

    /// Returns the text of a block scalar without the line break that the parser adds where the last
    /// line of all has none.
    fn as_it_ends(&self, span: &Span, scalar: Cow<'t, str>) -> Cow<'t, str> {
        let last = self.text.rsplit(['\r', '\n']).next().unwrap_or_default();
        let is_last = span.end.byte_offset() == Some(self.text.len()) && !last.trim().is_empty();
        match scalar.strip_suffix('\n') {
            Some(text) if is_last => Cow::Owned(text.to_owned()),
            _ => scalar,
        }
    }

    /// Adds a node; an anchor of 0 is none.
    fn add(&mut self, anchor: usize, line: usize, kind: Kind<'t>) {
        let nodes = &mut self.document.nodes;
        if anchor != 0 {
            self.anchors.insert(anchor, nodes.len());
        }
        nodes.push(Node { line, kind });
    }

    /// Adds a list or a map, which is open until [`Builder::close`].
    fn add_open(&mut self, anchor: usize, line: usize, kind: Kind<'t>) -> Result<(), YamlError> {
        if self.open.len() >= MAX_LEVELS {
            return Err(TooDeep.into());
        }
        self.open.push(self.document.nodes.len());
        self.add(anchor, line, kind);
        Ok(())
    }

    /// Ends the innermost list or map.
    fn close(&mut self) {
        let nodes = &mut self.document.nodes;
        let behind = nodes.len();
        let at = self.open.pop();
        if let Some(Kind::List(end) | Kind::Map(end)) = at.map(|at| &mut nodes[at].kind) {
            *end = behind;
        }
    }

    /// Adds an alias of the node with this anchor.
    fn add_alias(&mut self, anchor: usize, line: usize) -> Result<(), YamlError> {
        match self.anchors.get(&anchor) {
            Some(target) if !self.open.contains(target) => {
                let kind = Kind::Alias(*target);
                self.add(0, line, kind);
                Ok(())
            }
            // The parser has refused an anchor that it does not know.
            _ => Err(YamlError::ContainsItself(line)),
        }
    }
}
