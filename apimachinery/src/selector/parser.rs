//! The grammar of label selectors: `key`, `!key`, `key=value`, `key in (a,b)`, joined by commas.

use std::collections::BTreeSet;

use super::lexer::{Item, Token, scan};
use super::{LabelSelector, Operator, Requirement, SelectorError};
use crate::schema::{FieldError, label_value_errors, qualified_name_errors};

/// The list in `found '…', expected: …` for a missing operator, in the kube-apiserver's order.
const OPERATORS: &str = "in, notin, =, ==, !=, gt, lt";

pub(super) fn parse(text: &str) -> Result<LabelSelector, SelectorError> {
    let mut parser = Parser {
        items: scan(text),
        position: 0,
    };
    parser.selector().map_err(SelectorError)
}

struct Parser {
    items: Vec<Item>,
    position: usize,
}

type Parsed<T> = Result<T, String>;

impl Parser {
    fn selector(&mut self) -> Parsed<LabelSelector> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                Token::Identifier | Token::Not => {
                    let requirement = self
                        .requirement()
                        .map_err(|err| format!("unable to parse requirement: {err}"))?;
                    requirements.push(requirement);
                    match self.next() {
                        (Token::End, _) => break,
                        (Token::Comma, _) => self.expect_identifier_after_comma()?,
                        (_, text) => {
                            return Err(format!(
                                "found '{text}', expected: ',' or 'end of string'"
                            ));
                        }
                    }
                }
                Token::End => break,
                _ => {
                    let (_, text) = self.next();
                    return Err(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    ));
                }
            }
        }
        Ok(LabelSelector::new(requirements))
    }

    fn expect_identifier_after_comma(&mut self) -> Parsed<()> {
        match self.peek() {
            Token::Identifier | Token::Not => Ok(()),
            _ => {
                let (_, text) = self.next();
                Err(format!("found '{text}', expected: identifier after ','"))
            }
        }
    }

    fn requirement(&mut self) -> Parsed<Requirement> {
        let (mut token, mut key) = self.next();
        let negated = token == Token::Not;
        if negated {
            (token, key) = self.next();
        }
        if token != Token::Identifier {
            return Err(format!("found '{key}', expected: identifier"));
        }
        check_key(&key, "<nil>")?;
        if negated || matches!(self.peek(), Token::End | Token::Comma) {
            let operator = if negated {
                Operator::DoesNotExist
            } else {
                Operator::Exists
            };
            return Ok(Requirement {
                key,
                operator,
                values: Vec::new(),
            });
        }
        let operator = self.operator()?;
        let values = match operator {
            Operator::In | Operator::NotIn => self.values()?,
            _ => self.exact_value()?,
        };
        requirement(key, operator, values)
    }

    fn operator(&mut self) -> Parsed<Operator> {
        let (token, text) = self.next_raw();
        Ok(match token {
            Token::In => Operator::In,
            Token::NotIn => Operator::NotIn,
            Token::Equals => Operator::Equals,
            Token::DoubleEquals => Operator::DoubleEquals,
            Token::NotEquals => Operator::NotEquals,
            Token::Greater => Operator::GreaterThan,
            Token::Less => Operator::LessThan,
            _ => return Err(format!("found '{text}', expected: {OPERATORS}")),
        })
    }

    fn values(&mut self) -> Parsed<BTreeSet<String>> {
        let (token, text) = self.next();
        if token != Token::OpenParenthesis {
            return Err(format!("found '{text}' expected: '('"));
        }
        let first = self
            .items
            .get(self.position)
            .map(|(_, text)| text.clone())
            .unwrap_or_default();
        match self.peek() {
            Token::Identifier | Token::Comma => {
                let values = self.identifiers()?;
                match self.next() {
                    (Token::CloseParenthesis, _) => Ok(values),
                    _ => Err(format!("found '{first}', expected: ')'")),
                }
            }
            Token::CloseParenthesis => {
                self.next();
                Ok(BTreeSet::from([String::new()]))
            }
            _ => Err(format!("found '{first}', expected: ',', ')' or identifier")),
        }
    }

    /// Returns the values between parentheses; an empty place between commas is the empty value.
    fn identifiers(&mut self) -> Parsed<BTreeSet<String>> {
        let mut values = BTreeSet::new();
        loop {
            match self.next() {
                (Token::Identifier, text) => {
                    values.insert(text);
                    match self.peek() {
                        Token::Comma => {}
                        Token::CloseParenthesis => return Ok(values),
                        _ => {
                            let (_, text) = self.next();
                            return Err(format!("found '{text}', expected: ',' or ')'"));
                        }
                    }
                }
                (Token::Comma, _) => {
                    if values.is_empty() {
                        values.insert(String::new());
                    }
                    match self.peek() {
                        Token::CloseParenthesis => {
                            values.insert(String::new());
                            return Ok(values);
                        }
                        Token::Comma => {
                            values.insert(String::new());
                        }
                        _ => {}
                    }
                }
                (_, text) => return Err(format!("found '{text}', expected: ',', or identifier")),
            }
        }
    }

    fn exact_value(&mut self) -> Parsed<BTreeSet<String>> {
        if matches!(self.peek(), Token::End | Token::Comma) {
            return Ok(BTreeSet::from([String::new()]));
        }
        match self.next() {
            (Token::Identifier, text) => Ok(BTreeSet::from([text])),
            (_, text) => Err(format!("found '{text}', expected: identifier")),
        }
    }

    /// Returns the next token where `in` and `notin` are names like others.
    fn peek(&self) -> Token {
        match self
            .items
            .get(self.position)
            .map_or(Token::End, |(token, _)| *token)
        {
            Token::In | Token::NotIn => Token::Identifier,
            token => token,
        }
    }

    fn next(&mut self) -> Item {
        let token = self.peek();
        let (_, text) = self.next_raw();
        (token, text)
    }

    fn next_raw(&mut self) -> Item {
        let item = self.items.get(self.position).cloned();
        self.position += 1;
        item.unwrap_or((Token::End, String::new()))
    }
}

fn requirement(key: String, operator: Operator, values: BTreeSet<String>) -> Parsed<Requirement> {
    let values: Vec<String> = values.into_iter().collect();
    let mut errors = Vec::new();
    let numeric = matches!(operator, Operator::GreaterThan | Operator::LessThan);
    for (index, value) in values.iter().enumerate() {
        if numeric && value.parse::<i64>().is_err() {
            let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
            let field = format!("values[{index}]");
            errors.push(FieldError::invalid(field, value.as_str(), detail).to_string());
        }
    }
    for (index, value) in values.iter().enumerate() {
        let reasons = label_value_errors(value);
        if !reasons.is_empty() {
            let field = format!("values[{index}][{key}]");
            let error = FieldError::invalid(field, value.as_str(), reasons.join("; "));
            errors.push(error.to_string());
        }
    }
    match errors.len() {
        0 => Ok(Requirement {
            key,
            operator,
            values,
        }),
        1 => Err(errors.remove(0)),
        _ => Err(format!("[{}]", errors.join(", "))),
    }
}

fn check_key(key: &str, field: &str) -> Parsed<()> {
    let reasons = qualified_name_errors(key);
    if reasons.is_empty() {
        Ok(())
    } else {
        Err(FieldError::invalid(field, key, reasons.join("; ")).to_string())
    }
}
