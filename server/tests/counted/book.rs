//! Counted numbers beside recorded ones. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The name of a quantity, and its number.
pub type Entry = (&'static str, u64);

/// The distance from a recorded number that is accepted, in percent of it.
#[derive(Clone, Copy, Debug)]
pub struct Margin {
    above: u64,
    /// A number that is lower is no fault of the code, but the bound is not narrow any more.
    below: u64,
}

/// The margin of work and of what a database makes of it.
pub const USUAL: Margin = Margin {
    above: 5,
    below: 15,
};

/// The margin of texts and of their compressed forms, in which only names and times differ.
pub const TEXT: Margin = Margin { above: 2, below: 2 };

/// All numbers that were counted, in order.
#[derive(Debug, Default)]
pub struct Book(Vec<Note>);

#[derive(Debug)]
struct Note {
    name: String,
    number: u64,
    margin: Margin,
}

impl Book {
    pub fn note(&mut self, name: String, number: u64, margin: Margin) {
        self.0.push(Note {
            name,
            number,
            margin,
        });
    }

    /// Returns the text of a constant with all numbers, as it is in a source file.
    pub fn table(&self, constant: &str) -> String {
        let mut text = format!("pub const {constant}: &[Entry] = &[\n");
        for Note { name, number, .. } in &self.0 {
            let _ = writeln!(text, "    (\"{name}\", {}),", grouped(*number));
        }
        text.push_str("];\n");
        text
    }

    /// Returns a sentence for each number that is not what `table` says.
    pub fn faults(&self, table: &[Entry]) -> Vec<String> {
        let recorded: BTreeMap<&str, u64> = table.iter().copied().collect();
        let judged = |note: &Note| note.fault(recorded.get(note.name.as_str()).copied());
        let mut faults: Vec<String> = self.0.iter().filter_map(judged).collect();
        for (name, _) in table {
            if !self.0.iter().any(|note| note.name == *name) {
                faults.push(format!("{name}: recorded, but not counted"));
            }
        }
        faults
    }
}

impl Note {
    fn fault(&self, recorded: Option<u64>) -> Option<String> {
        let Self {
            name,
            number,
            margin: Margin { above, below },
        } = self;
        let Some(recorded) = recorded else {
            return Some(format!("{name}: {number}, but not recorded"));
        };
        let fault = |side: &str, margin: &u64| {
            format!("{name}: {number}, more than {margin} % {side} the recorded {recorded}")
        };
        if number * 100 > recorded * (100 + above) {
            Some(fault("above", above))
        } else if number * 100 < recorded * (100 - below) {
            Some(fault("below", below))
        } else {
            None
        }
    }
}

/// Returns a number with its thousands set apart, as in a source file.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('_');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(number: u64) -> Book {
        let mut book = Book::default();
        book.note("get".to_owned(), number, USUAL);
        book
    }

    #[test]
    fn a_number_has_to_be_near_the_recorded_one() {
        let faults = |number| book(number).faults(&[("get", 1000)]).len();
        assert_eq!([849, 850, 1000, 1050, 1051].map(faults), [1, 0, 0, 0, 1]);
    }

    #[test]
    fn nothing_is_allowed_above_nothing() {
        assert!(book(0).faults(&[("get", 0)]).is_empty());
        assert_eq!(book(1).faults(&[("get", 0)]).len(), 1);
    }

    #[test]
    fn the_table_has_all_numbers_and_no_others() {
        assert_eq!(book(7).faults(&[]), ["get: 7, but not recorded"]);
        let more = [("get", 7), ("put", 7)];
        assert_eq!(book(7).faults(&more), ["put: recorded, but not counted"]);
    }

    #[test]
    fn tables_are_printed_as_they_are_written() {
        let mut book = book(1_234_567);
        book.note("put".to_owned(), 89, TEXT);
        let text =
            "pub const ALL: &[Entry] = &[\n    (\"get\", 1_234_567),\n    (\"put\", 89),\n];\n";
        assert_eq!(book.table("ALL"), text);
    }
}
