//! The parameters of statements, from JSON: a list for `$1`, `$2` and `?`, or an object for `$name`.

use freestone::{Error, ErrorKind, Inputs, ParameterNames, ScalarValue, Statement};
use serde_json::{Map, Value};

use super::refusal::Refusal;

/// The values that a page has sent.
#[derive(Debug, Default)]
pub(crate) enum Given {
    #[default]
    Nothing,
    ByNumber(Vec<ScalarValue>),
    ByName(Vec<(String, ScalarValue)>),
}

impl Given {
    /// Values from JSON. Texts have the type of the place in which they stand, as texts in quotes have, so numbers with more digits
    /// than JSON's are sent as texts.
    ///
    /// # Errors
    /// A value is a list or an object.
    pub fn of(value: Option<Value>) -> Result<Given, Refusal> {
        match value {
            None | Some(Value::Null) => Ok(Given::Nothing),
            Some(Value::Array(values)) => {
                let numbered = values.into_iter().enumerate().map(|(at, value)| scalar(&format!("${}", at + 1), value));
                numbered.collect::<Result<_, _>>().map(Given::ByNumber)
            }
            Some(Value::Object(values)) => by_name(values),
            Some(_) => {
                Err(Refusal::bad_request("parameters are a list of values, or an object with a value for each name"))
            }
        }
    }

    /// The inputs of a statement: those that it names. A statement without parameters takes none, because a list of
    /// statements shares its values.
    ///
    /// # Errors
    /// A value is missing.
    pub fn inputs(&self, statement: &Statement) -> freestone::Result<Inputs> {
        if matches!(self, Given::Nothing) {
            return Ok(Inputs::default());
        }
        let values = match (statement.parameter_names()?, self) {
            (ParameterNames::Numbers(0), _) | (_, Given::Nothing) => vec![],
            (ParameterNames::Numbers(count), Given::ByNumber(values)) => values.iter().take(count).cloned().collect(),
            (ParameterNames::Numbers(_), Given::ByName(_)) => {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    "the statement has parameters by number, and the values have names",
                )
                .with_hint("send a list of values"));
            }
            (ParameterNames::Names(names), Given::ByName(values)) => {
                let value = |name: &String| {
                    let found = values.iter().find(|(given, _)| given == name).map(|(_, value)| value.clone());
                    found.ok_or_else(|| Error::new(ErrorKind::Invalid, format!("there is no value for ${name}")))
                };
                names.iter().map(value).collect::<Result<_, _>>()?
            }
            (ParameterNames::Names(names), Given::ByNumber(values)) => {
                values.iter().take(names.len()).cloned().collect()
            }
        };
        Ok(Inputs { values, ..Inputs::default() })
    }

    /// Checks that some statement takes each of the values.
    ///
    /// # Errors
    /// There are more than the statements have parameters, or one has a name that they do not have.
    pub fn check_used(&self, statements: &[Statement]) -> freestone::Result<()> {
        // Statements with errors of their own report these.
        let names = statements.iter().map(Statement::parameter_names).collect::<freestone::Result<Vec<_>>>();
        let Ok(names) = names else { return Ok(()) };
        match self {
            Given::Nothing => Ok(()),
            Given::ByNumber(values) => match names.iter().map(ParameterNames::count).max().unwrap_or(0) {
                most if values.len() > most => {
                    let message =
                        format!("the statements have {most} parameters, and there are {} values", values.len());
                    Err(Error::new(ErrorKind::Invalid, message).with_hint("write $1, $2, … or ? where they belong"))
                }
                _ => Ok(()),
            },
            Given::ByName(values) => {
                let has = |wanted: &String| {
                    names.iter().any(|names| matches!(names, ParameterNames::Names(names) if names.contains(wanted)))
                };
                match values.iter().find(|(name, _)| !has(name)) {
                    Some((name, _)) => {
                        Err(Error::new(ErrorKind::Invalid, format!("no statement has a parameter ${name}")))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

fn by_name(values: Map<String, Value>) -> Result<Given, Refusal> {
    let named = values.into_iter().map(|(name, value)| {
        let value = scalar(&format!("${name}"), value)?;
        Ok((name, value))
    });
    named.collect::<Result<_, _>>().map(Given::ByName)
}

fn scalar(name: &str, value: Value) -> Result<ScalarValue, Refusal> {
    match value {
        Value::Null => Ok(ScalarValue::Null),
        Value::Bool(value) => Ok(ScalarValue::Boolean(Some(value))),
        Value::String(text) => Ok(ScalarValue::Utf8View(Some(text))),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), ..) => Ok(ScalarValue::Int64(Some(number))),
            (_, Some(number), _) => Ok(ScalarValue::UInt64(Some(number))),
            (.., number) => Ok(ScalarValue::Float64(number)),
        },
        Value::Array(_) | Value::Object(_) => {
            Err(Refusal::bad_request(format!("the value of {name} is no text, number, true, false or null"))
                .with_hint("send lists and structs as text, and cast it in the statement"))
        }
    }
}

#[cfg(test)]
mod tests {
    use freestone::parse_script;
    use serde_json::json;

    use super::*;

    fn values(sql: &str, given: Value) -> Result<Vec<ScalarValue>, String> {
        let given = Given::of(Some(given)).expect("values");
        let statements = parse_script(sql);
        given.check_used(&statements).map_err(|error| error.to_string())?;
        given.inputs(statements.last().expect("a statement")).map(|inputs| inputs.values).map_err(|e| e.to_string())
    }

    #[test]
    fn statements_take_the_values_that_they_name() {
        let one = ScalarValue::Int64(Some(1));
        let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
        for (sql, given, expected) in [
            ("SELECT 1", json!([]), vec![]),
            ("SELECT $1", json!([1]), vec![one.clone()]),
            ("SELECT ?, ?", json!([1, "x"]), vec![one.clone(), text("x")]),
            ("SELECT $1, $2; SELECT $1", json!([1, null]), vec![one.clone()]),
            ("SELECT $1; SELECT 2", json!([1]), vec![]),
            ("SELECT $b, $a, $b", json!({ "a": 1, "b": true }), vec![ScalarValue::Boolean(Some(true)), one.clone()]),
            ("SELECT $a", json!([1]), vec![one]),
            ("SELECT $1", json!([u64::MAX]), vec![ScalarValue::UInt64(Some(u64::MAX))]),
            ("SELECT $1", json!([1.5]), vec![ScalarValue::Float64(Some(1.5))]),
        ] {
            assert_eq!(values(sql, given.clone()), Ok(expected), "{sql} {given}");
        }
        for (sql, given, part) in [
            ("SELECT 1", json!([1]), "0 parameters"),
            ("SELECT $1", json!([1, 2]), "1 parameters"),
            ("SELECT $1", json!({ "a": 1 }), "no statement has a parameter $a"),
            ("SELECT $a, $b", json!({ "a": 1 }), "no value for $b"),
        ] {
            let error = values(sql, given.clone()).expect_err(sql);
            assert!(error.contains(part), "{sql} {given}: {error}");
        }
        for wrong in [json!("x"), json!(1), json!([[1]]), json!({ "a": {} })] {
            assert!(Given::of(Some(wrong.clone())).is_err(), "{wrong}");
        }
    }
}
