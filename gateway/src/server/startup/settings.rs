//! The settings of a startup packet.

use crate::pg::error::{Result, SqlError};

/// The settings of a startup packet: those in `options`, then those by name.
pub(super) fn settings(parameters: &[(String, String)]) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    for (name, value) in parameters {
        match name.as_str() {
            "user" | "database" | "replication" => {}
            "options" => settings.splice(0..0, options(value)?).for_each(drop),
            _ => settings.push((name.clone(), value.clone())),
        }
    }
    Ok(settings)
}

/// The settings in `options`: `-c name=value`, `-cname=value`, `--name=value`, apart by spaces that no backslash stands
/// before.
fn options(text: &str) -> Result<Vec<(String, String)>> {
    let mut words = vec![String::new()];
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match (char, words.last_mut()) {
            (char, _) if char.is_whitespace() => words.push(String::new()),
            ('\\', Some(word)) => word.extend(chars.next()),
            (char, Some(word)) => word.push(char),
            (_, None) => {}
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut settings = Vec::new();
    while let Some(word) = words.next() {
        let setting = match word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            Some("") => words.next(),
            Some(setting) => Some(setting.to_owned()),
            None => None,
        };
        let Some((name, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) else {
            let message = format!("invalid command-line argument for server process: {word}");
            return Err(SqlError::syntax(message).with_hint("Options are of the form -c name=value."));
        };
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pg::error::SqlState;

    fn read(text: &str) -> Vec<(String, String)> {
        options(text).unwrap()
    }

    #[test]
    fn options_are_read_in_every_form() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(read("-c a=1 -cb=2  --c-d=3"), [pair("a", "1"), pair("b", "2"), pair("c_d", "3")]);
        assert_eq!(read(r"-c a=x\ y\\z"), [pair("a", r"x y\z")]);
        assert_eq!(read(""), []);
        assert_eq!(options("-x").unwrap_err().state, SqlState::SYNTAX_ERROR);
        assert_eq!(options("-c a").unwrap_err().state, SqlState::SYNTAX_ERROR);
    }

    #[test]
    fn settings_by_name_come_after_those_in_options() {
        let parameters = [("user", "u"), ("application_name", "psql"), ("options", "-c application_name=x")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let names = |(_, value): (String, String)| value;
        assert_eq!(settings(&parameters).unwrap().into_iter().map(names).collect::<Vec<_>>(), ["x", "psql"]);
    }
}
