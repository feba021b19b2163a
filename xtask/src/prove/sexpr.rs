//! S-expressions: the syntax of SMT-LIB, and of the models in `proof/`.

use std::fmt;

/// A term of SMT-LIB, or a form of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sexpr {
    /// A symbol or a number.
    Atom(String),
    /// Words between double quotes, with line breaks as single spaces.
    Text(String),
    /// A list.
    List(Vec<Sexpr>),
}

impl Sexpr {
    /// The symbol that this is.
    pub(super) fn symbol(&self) -> Result<&str, String> {
        match self {
            Sexpr::Atom(text) => Ok(text),
            other => Err(format!("`{other}` is not a name")),
        }
    }

    /// The words that this is.
    pub(super) fn text(&self) -> Result<&str, String> {
        match self {
            Sexpr::Text(text) => Ok(text),
            other => Err(format!("`{other}` is not text in double quotes")),
        }
    }

    /// The parts of the list that this is.
    pub(super) fn list(&self) -> Result<&[Sexpr], String> {
        match self {
            Sexpr::List(parts) => Ok(parts),
            other => Err(format!("`{other}` is not a list")),
        }
    }

    /// Whether the symbol occurs.
    pub(super) fn mentions(&self, symbol: &str) -> bool {
        match self {
            Sexpr::Atom(text) => text == symbol,
            Sexpr::Text(_) => false,
            Sexpr::List(parts) => parts.iter().any(|part| part.mentions(symbol)),
        }
    }

    /// The term with other symbols in place of some.
    pub(super) fn rename(&self, new_name: &dyn Fn(&str) -> Option<String>) -> Sexpr {
        match self {
            Sexpr::Atom(text) => new_name(text).map_or_else(|| self.clone(), Sexpr::Atom),
            Sexpr::Text(_) => self.clone(),
            Sexpr::List(parts) => Sexpr::List(parts.iter().map(|part| part.rename(new_name)).collect()),
        }
    }

    /// The formula without quantifiers over sorts of which all elements are known: with all the cases in their place.
    pub(super) fn expand(&self, elements: &dyn Fn(&str) -> Option<Vec<String>>) -> Sexpr {
        let Sexpr::List(parts) = self else { return self.clone() };
        let expanded = || Sexpr::List(parts.iter().map(|part| part.expand(elements)).collect());
        // A hint for the solver about a quantifier.
        if let [Sexpr::Atom(mark), formula, ..] = parts.as_slice()
            && mark == "!"
        {
            return formula.expand(elements);
        }
        let [Sexpr::Atom(quantifier), Sexpr::List(bound), body] = parts.as_slice() else { return expanded() };
        let all = match quantifier.as_str() {
            "forall" => "and",
            "exists" => "or",
            _ => return expanded(),
        };
        let mut cases = vec![body.expand(elements)];
        for variable in bound {
            let known = match variable.list() {
                Ok([Sexpr::Atom(name), Sexpr::Atom(sort)]) => elements(sort).map(|known| (name, known)),
                _ => None,
            };
            let Some((name, known)) = known else { return expanded() };
            let with = |case: &Sexpr, element: &String| {
                case.rename(&|symbol| (symbol == name).then(|| element.clone()))
            };
            cases =
                cases.iter().flat_map(|case| known.iter().map(move |element| with(case, element))).collect();
        }
        cases.insert(0, Sexpr::Atom(all.to_string()));
        Sexpr::List(cases)
    }
}

impl fmt::Display for Sexpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sexpr::Atom(text) => f.write_str(text),
            Sexpr::Text(text) => write!(f, "\"{text}\""),
            Sexpr::List(parts) => {
                f.write_str("(")?;
                for (place, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if place == 0 { "" } else { " " })?;
                }
                f.write_str(")")
            }
        }
    }
}

/// A form of a file, and the line that it begins in.
pub(super) type Form = (usize, Sexpr);

/// Reads the forms of a file. An error names the line.
pub(super) fn parse(text: &str) -> Result<Vec<Form>, String> {
    let mut forms = Vec::new();
    let mut unfinished: Vec<(usize, Vec<Sexpr>)> = Vec::new();
    let mut line = 1;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let part = match letter {
            '\n' => {
                line += 1;
                continue;
            }
            ';' => {
                while letters.next_if(|&letter| letter != '\n').is_some() {}
                continue;
            }
            '(' => {
                unfinished.push((line, Vec::new()));
                continue;
            }
            ')' => {
                let (start, parts) =
                    unfinished.pop().ok_or_else(|| format!("line {line}: one `)` too many"))?;
                if unfinished.is_empty() {
                    forms.push((start, Sexpr::List(parts)));
                    continue;
                }
                Sexpr::List(parts)
            }
            '"' => {
                let start = line;
                let mut text = String::new();
                loop {
                    match letters.next() {
                        Some('"') => break,
                        Some(letter) => {
                            line += usize::from(letter == '\n');
                            text.push(letter);
                        }
                        None => return Err(format!("line {start}: the text does not end")),
                    }
                }
                Sexpr::Text(text.split_whitespace().collect::<Vec<_>>().join(" "))
            }
            letter if letter.is_whitespace() => continue,
            letter => {
                let mut symbol = String::from(letter);
                let ends = |letter: char| letter.is_whitespace() || "();\"".contains(letter);
                while let Some(letter) = letters.next_if(|&letter| !ends(letter)) {
                    symbol.push(letter);
                }
                Sexpr::Atom(symbol)
            }
        };
        let (_, parts) =
            unfinished.last_mut().ok_or_else(|| format!("line {line}: `{part}` is in no form"))?;
        parts.push(part);
    }
    match unfinished.first() {
        Some((start, _)) => Err(format!("line {start}: the form does not end")),
        None => Ok(forms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_read_with_their_lines_and_without_comments() {
        let forms = parse("; words\n(a (b c) ; more\n  \"two\n   lines\")\n\n(d)\n").unwrap();
        let lines: Vec<usize> = forms.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 6]);
        assert_eq!(forms[0].1.to_string(), "(a (b c) \"two lines\")");
    }

    #[test]
    fn what_does_not_end_or_begin_is_an_error_with_its_line() {
        assert!(parse("(a)\n(b\n(c)").unwrap_err().contains("line 2"));
        assert!(parse("(a))").unwrap_err().contains("line 1"));
        assert!(parse("\n\nx").unwrap_err().contains("line 3"));
        assert!(parse("(\"x").unwrap_err().contains("line 1"));
    }

    #[test]
    fn quantifiers_over_few_elements_become_cases() {
        let few = |sort: &str| (sort == "S").then(|| vec!["s1".to_string(), "s2".to_string()]);
        let expand = |text: &str| parse(text).unwrap()[0].1.expand(&few).to_string();
        let expected = "(and (or (f s1 s1) (f s1 s2)) (or (f s2 s1) (f s2 s2)))";
        assert_eq!(expand("(forall ((x S)) (exists ((y S)) (f x y)))"), expected);
        // The inner variable hides the outer one.
        assert_eq!(
            expand("(forall ((x S)) (exists ((x S)) (f x)))"),
            "(and (or (f s1) (f s2)) (or (f s1) (f s2)))"
        );
        assert_eq!(expand("(forall ((x S)) (! (f x) :pattern ((f x))))"), "(and (f s1) (f s2))");
        assert_eq!(expand("(forall ((x Real)) (f x))"), "(forall ((x Real)) (f x))");
    }

    #[test]
    fn symbols_are_renamed_and_text_is_not() {
        let (_, form) = parse("(f (g f) \"f\")").unwrap().remove(0);
        let renamed = form.rename(&|name| (name == "f").then(|| "f!".to_string()));
        assert_eq!(renamed.to_string(), "(f! (g f!) \"f\")");
        assert!(form.mentions("g") && !form.mentions("h"));
    }
}
