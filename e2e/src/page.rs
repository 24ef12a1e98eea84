//! Pages of the documentation: their blocks, and the commands in them, as they stand there.

/// A page, of which tests run what a reader runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Path of the file, for whoever has to look into it.
    pub name: &'static str,
    /// The text.
    pub text: &'static str,
}

/// A block between fences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The heading that it stands under, of any level.
    pub heading: &'static str,
    /// The language that its fence names.
    pub language: &'static str,
    lines: Vec<&'static str>,
}

impl Page {
    /// Returns every block, in order.
    #[must_use]
    pub fn blocks(&self) -> Vec<Block> {
        let (mut found, mut heading) = (Vec::new(), "");
        let mut lines = self.text.lines();
        while let Some(line) = lines.next() {
            if let Some(language) = line.strip_prefix("```") {
                found.push(Block {
                    heading,
                    language,
                    lines: lines.by_ref().take_while(|line| *line != "```").collect(),
                });
            } else if line.starts_with('#') {
                heading = line.trim_start_matches('#').trim();
            }
        }
        found
    }

    /// Returns the blocks of a language under a heading.
    #[must_use]
    pub fn under(&self, heading: &str, language: &str) -> Vec<Block> {
        let is_meant = |block: &Block| block.heading == heading && block.language == language;
        self.blocks().into_iter().filter(is_meant).collect()
    }
}

impl Block {
    /// Returns the whole text.
    #[must_use]
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }

    /// Returns the commands of a console: each begins with a prompt, and goes on after a line that
    /// ends with `\` or `|`.
    #[must_use]
    pub fn commands(&self) -> Vec<String> {
        let mut commands: Vec<String> = Vec::new();
        self.read(|line, is_new| match commands.last_mut() {
            Some(last) if !is_new => *last = format!("{last}\n{line}"),
            _ => commands.push(line.to_owned()),
        });
        commands
    }

    /// Returns the lines that the commands of a console print.
    #[must_use]
    pub fn output(&self) -> Vec<&'static str> {
        self.read(|_, _| {})
    }

    /// Tells the lines of commands, and whether each begins one; returns the other lines.
    fn read(&self, mut tell: impl FnMut(&'static str, bool)) -> Vec<&'static str> {
        let (mut output, mut goes_on) = (Vec::new(), false);
        for line in self.lines.iter().copied() {
            let prompted = line.strip_prefix("$ ");
            if prompted.is_none() && !goes_on {
                output.push(line);
                continue;
            }
            tell(prompted.unwrap_or(line), prompted.is_some());
            goes_on = line.ends_with(['\\', '|']);
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page = Page {
        name: "page.md",
        text: "\
# Title

```yaml
a: 1
b: 2
```

## First

```console
$ one --long \\
    more
said
$ two |
    three
```

### Second

```bash
# no heading
four
```

```console
$ five
```
",
    };

    #[test]
    fn blocks_are_found_by_heading_and_language() {
        let blocks = PAGE.blocks();
        let found: Vec<_> = blocks
            .iter()
            .map(|block| (block.heading, block.language))
            .collect();
        let expected = [
            ("Title", "yaml"),
            ("First", "console"),
            ("Second", "bash"),
            ("Second", "console"),
        ];
        assert_eq!(found, expected);
        assert_eq!(blocks[0].text(), "a: 1\nb: 2");
        assert_eq!(PAGE.under("Second", "console"), blocks[3..]);
        assert_eq!(blocks[2].text(), "# no heading\nfour");
    }

    #[test]
    fn a_console_has_commands_and_output() {
        let blocks = PAGE.under("First", "console");
        let commands = blocks[0].commands();
        assert_eq!(commands, ["one --long \\\n    more", "two |\n    three"]);
        assert_eq!(blocks[0].output(), ["said"]);
    }
}
