//! The configuration file: the options of `keyspan serve` and `demo`, in TOML.
//!
//! ```text
//! file ──▶ keys and values with their lines ──▶ arguments before those of the command line ──▶ clap
//! ```
//!
//! A key is the name of an option, with `_` for `-`. What it means, and what values it has, is the command line's to
//! say, so that both are the same. The command line comes before the environment, and the environment before the file.
//! What is wrong is told with the line, before anything is opened.

use crate::options::ServeOptions;
use anyhow::{Context, Result, bail, ensure};
use clap::{
    Arg, ArgAction, Args as _, Command,
    error::{ContextKind, ContextValue, ErrorKind},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::{OsStr, OsString},
    fmt::Write as _,
    path::{Path, PathBuf},
};
use toml::de::{DeTable, DeValue};

/// Bytes of a configuration file, at most.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Where the file is, if the command line does not say.
const ENVIRONMENT: &str = "KEYSPAN_CONFIG";
/// The commands that read it.
const COMMANDS: [&str; 2] = ["serve", "demo"];

/// What changes while the server runs, on SIGHUP.
pub const RELOADED: [&str; 2] = ["access", "log_min_duration_statement"];

/// A line of the file, as an argument.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// The option's name in clap.
    id: String,
    line: usize,
    /// `--name`, or `--name=value`; `None` for a switch that is off.
    argument: Option<OsString>,
}

/// The arguments of a process, with those of its configuration file.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    /// The arguments for clap.
    pub all: Vec<OsString>,
    file: Option<PathBuf>,
    settings: Vec<Setting>,
}

/// The options of `serve`, as clap knows them.
fn command() -> Command {
    ServeOptions::augment_args(Command::new("serve"))
}

impl Arguments {
    /// Those of the process, with those of the file that they or the environment name.
    ///
    /// # Errors
    /// If the file cannot be read, or has what is no option: with the line.
    pub fn of_process() -> Result<Self> {
        Self::with_file(env::args_os().collect(), |name| env::var_os(name))
    }

    fn with_file(arguments: Vec<OsString>, environment: impl Fn(&str) -> Option<OsString>) -> Result<Self> {
        let reads = arguments.get(1).and_then(|word| word.to_str()).is_some_and(|word| COMMANDS.contains(&word));
        // Help comes whatever the file says, or if there is none.
        let asks_for_help = arguments.iter().skip(2).any(|word| word == "--help" || word == "-h");
        let file = match reads && !asks_for_help {
            true => named_file(&arguments).or_else(|| environment(ENVIRONMENT)).filter(|file| !file.is_empty()),
            false => None,
        };
        let Some(file) = file.map(PathBuf::from) else {
            return Ok(Self { all: arguments, file: None, settings: Vec::new() });
        };
        let mut settings = read(&file)?;
        let command = command();
        // Else the file would come before the environment.
        settings.retain(|setting| {
            let arg = command.get_arguments().find(|arg| arg.get_id() == setting.id.as_str());
            let name = arg.and_then(Arg::get_env).and_then(OsStr::to_str);
            name.and_then(&environment).is_none()
        });
        let mut arguments = arguments.into_iter();
        let mut all: Vec<OsString> = arguments.by_ref().take(2).collect();
        all.extend(settings.iter().filter_map(|setting| setting.argument.clone()));
        all.extend(arguments);
        Ok(Self { all, file: Some(file), settings })
    }

    /// An error of clap with the line of the file that it comes of.
    pub fn located(&self, error: &clap::Error, command: &Command) -> Option<String> {
        let file = self.file.as_ref()?.display();
        let mut named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(name)) => vec![name.clone()],
            Some(ContextValue::Strings(names)) => names.clone(),
            _ => Vec::new(),
        };
        named.sort();
        let by_name = self.settings.iter().find(|setting| {
            let option = option_of(&setting.id);
            named.iter().any(|name| name.split([' ', '=']).next() == Some(option.as_str()))
        });
        // One that asks for another: the file without it is in order.
        let by_trial = || {
            self.settings.iter().find(|setting| {
                let without = self.all.iter().filter(|word| setting.argument.as_ref() != Some(*word));
                command.clone().try_get_matches_from(without).is_ok()
            })
        };
        let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
        let setting = if is_missing { by_trial() } else { by_name }?;
        let text = error.to_string();
        let what = match is_missing {
            true => format!("{} wants {} too", option_of(&setting.id), named.join(" and ")),
            false => text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
        };
        Some(format!("{file}, line {}: {what}", setting.line))
    }

    /// A message about an option with the line of the file that it comes of.
    pub fn with_line(&self, message: &str) -> Option<String> {
        let file = self.file.as_ref()?.display();
        let option = message.split(' ').next().filter(|word| word.starts_with("--"))?;
        let setting = self.settings.iter().find(|setting| option_of(&setting.id) == option)?;
        Some(format!("{file}, line {}: {message}", setting.line))
    }
}

fn option_of(id: &str) -> String {
    format!("--{}", id.replace('_', "-"))
}

/// The file of `--config FILE` or `--config=FILE`.
fn named_file(arguments: &[OsString]) -> Option<OsString> {
    let mut words = arguments.iter().skip(2);
    let mut found = None;
    while let Some(word) = words.next() {
        match word.to_str() {
            Some("--config") => found = words.next().cloned(),
            Some("--") => break,
            Some(text) => found = text.strip_prefix("--config=").map(OsString::from).or(found),
            None => {}
        }
    }
    found
}

/// The settings of a file, in its order.
fn read(file: &Path) -> Result<Vec<Setting>> {
    let named = || format!("cannot use the configuration {}", file.display());
    let bytes = std::fs::metadata(file).with_context(named)?.len();
    ensure!(bytes <= FILE_BYTES_MAX, "{}: it is longer than {FILE_BYTES_MAX} bytes", named());
    let text = std::fs::read_to_string(file).with_context(named)?;
    settings(&text).map_err(|(line, what)| anyhow::anyhow!("{}, line {line}: {what}", file.display()))
}

/// The settings of a text; what is wrong, with the line.
fn settings(text: &str) -> Result<Vec<Setting>, (usize, String)> {
    let line_of = |at: usize| text.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let table = DeTable::parse(text)
        .map_err(|error| (line_of(error.span().map_or(0, |span| span.start)), error.message().to_owned()))?;
    let command = command();
    let mut settings = Vec::new();
    for (key, value) in table.into_inner() {
        let line = line_of(key.span().start);
        let id = key.into_inner().replace('-', "_");
        let arg = command.get_arguments().find(|arg| arg.get_id() == id.as_str() && id != "config");
        let Some(arg) = arg else { return Err((line, unknown(&command, &id))) };
        let option = option_of(&id);
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let value = match value.into_inner() {
            DeValue::Boolean(on) if is_switch => {
                settings.push(Setting { id, line, argument: on.then(|| option.into()) });
                continue;
            }
            _ if is_switch => return Err((line, format!("{id} is true or false"))),
            DeValue::String(text) => text.into_owned(),
            DeValue::Integer(number) => number.as_str().replace('_', ""),
            DeValue::Float(number) => number.as_str().to_owned(),
            _ => return Err((line, format!("{id} is a text or a number"))),
        };
        settings.push(Setting { id, line, argument: Some(format!("{option}={value}").into()) });
    }
    settings.sort_by_key(|setting| setting.line);
    Ok(settings)
}

/// That there is no such key, and which one may be meant.
fn unknown(command: &Command, id: &str) -> String {
    let known: Vec<&str> = shown(command).map(|arg| arg.get_id().as_str()).collect();
    let near = known.iter().map(|name| (strsim::damerau_levenshtein(name, id), *name)).min();
    let hint = near.filter(|(distance, _)| *distance <= 3).map(|(_, name)| format!("; is {name} meant?"));
    format!("there is no option {id}{}", hint.unwrap_or_else(|| "; keyspan config --print shows all".to_owned()))
}

/// The options that a file may have.
fn shown(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "config")
}

/// A file with all options, each with what it means and its default, none of them set.
pub fn print() -> String {
    let mut out = String::from(
        "# The configuration of keyspan serve. Each line below is the default, or an example where there is none.\n\
         # The command line comes before the environment, and the environment before this file.\n",
    );
    let command = command();
    for arg in shown(&command) {
        let help = arg.get_long_help().or_else(|| arg.get_help()).map(ToString::to_string).unwrap_or_default();
        out.push('\n');
        for line in help.lines() {
            // Lines of clap's are paragraphs.
            for wrapped in wrapped(line, 116) {
                let _ = writeln!(out, "{}", format!("# {wrapped}").trim_end());
            }
        }
        if let Some(name) = arg.get_env().and_then(OsStr::to_str) {
            let _ = writeln!(out, "# Environment: {name}");
        }
        if RELOADED.contains(&arg.get_id().as_str()) {
            out.push_str("# SIGHUP reads it anew.\n");
        }
        let _ = writeln!(out, "#{} = {}", arg.get_id(), example(arg));
    }
    out
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("there is a first");
        if !last.is_empty() && last.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

/// A value as TOML: the default, or the name of what is wanted.
fn example(arg: &Arg) -> String {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return "false".to_owned();
    }
    let default = arg.get_default_values().first().and_then(|value| value.to_str());
    let name = arg.get_value_names().and_then(|names| names.first()).map_or("VALUE", |name| name.as_str());
    match default {
        Some(number) if number.parse::<i64>().is_ok() => number.to_owned(),
        text => quoted(text.unwrap_or(name)),
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What options are set to, by name.
pub type Values = BTreeMap<String, Vec<OsString>>;

/// What the options of `serve` are set to.
pub fn values(matches: &clap::ArgMatches) -> Values {
    let command = command();
    let of = |arg: &Arg| {
        let id = arg.get_id().as_str();
        let raw = matches.try_get_raw(id).ok()??;
        Some((id.to_owned(), raw.map(OsStr::to_owned).collect()))
    };
    command.get_arguments().filter_map(of).collect()
}

/// The options that differ and do not change while the server runs.
pub fn needs_restart(before: &Values, after: &Values) -> Vec<String> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differs = |name: &&String| {
        before.get(*name) != after.get(*name) && *name != "config" && !RELOADED.contains(&name.as_str())
    };
    names.into_iter().filter(differs).cloned().collect()
}

/// Checks a file by itself.
///
/// # Errors
/// What is wrong, with the line.
pub fn check(file: &Path, whole: &Command) -> Result<()> {
    let arguments = ["keyspan", "serve", "--config"].map(OsString::from).into_iter().chain([file.into()]).collect();
    let arguments = Arguments::with_file(arguments, |_| None)?;
    match whole.clone().try_get_matches_from(&arguments.all) {
        Ok(_) => Ok(()),
        Err(error) => bail!(arguments.located(&error, whole).unwrap_or_else(|| error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn arguments(text: &str, words: &[&str], environment: &[(&str, &str)]) -> Result<Arguments> {
        let file = file(text);
        let all = ["keyspan", "serve", "--config"].map(OsString::from).into_iter().chain([file.path().into()]);
        let all = all.chain(words.iter().map(OsString::from)).collect();
        Arguments::with_file(all, |name| {
            environment.iter().find(|(other, _)| *other == name).map(|(_, value)| OsString::from(value))
        })
    }

    /// The options that come of a file, words and an environment.
    fn matched(text: &str, words: &[&str], environment: &[(&str, &str)]) -> clap::ArgMatches {
        let arguments = arguments(text, words, environment).unwrap();
        let matches = Cli::command().try_get_matches_from(&arguments.all).unwrap();
        matches.subcommand().unwrap().1.clone()
    }

    #[test]
    fn words_come_before_the_file() {
        let text = "listen = \"127.0.0.1:7\"\nconnections-max = 1_7\ntls_required = false\nmemory = \"64MiB\"";
        let of = |matches: &clap::ArgMatches, id: &str| values(matches)[id][0].to_str().unwrap().to_owned();
        let matches = matched(text, &[], &[]);
        assert_eq!((of(&matches, "listen"), of(&matches, "connections_max")), ("127.0.0.1:7".into(), "17".into()));
        assert_eq!(of(&matches, "memory"), "64MiB");
        let matches = matched(text, &["--listen", "127.0.0.1:8"], &[("KEYSPAN_MEMORY", "1GiB")]);
        // The environment is clap's to read: what counts is that the file is not before it.
        assert_eq!((of(&matches, "listen"), values(&matches).get("memory")), ("127.0.0.1:8".into(), None));
    }

    #[test]
    fn the_environment_names_a_file_for_serve_and_demo_only() {
        let file = file("listen = \"127.0.0.1:7\"");
        let named = |words: &[&str]| {
            let all = words.iter().map(OsString::from).collect();
            Arguments::with_file(all, |name| (name == ENVIRONMENT).then(|| file.path().into())).unwrap().all.len()
        };
        assert_eq!(
            (named(&["keyspan", "serve"]), named(&["keyspan", "demo"]), named(&["keyspan", "check"])),
            (3, 3, 2)
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let told = |text: &str| {
            let file = file(text);
            let error = check(file.path(), &Cli::command()).unwrap_err().to_string();
            error.replace(&file.path().display().to_string(), "FILE")
        };
        for (text, expected) in [
            ("\nlisten = \"a\"\nlisen = 1", "FILE, line 3: there is no option lisen; is listen meant?"),
            (
                "whatever_this_is = 1",
                "FILE, line 1: there is no option whatever_this_is; keyspan config --print shows all",
            ),
            ("config = \"x\"", "FILE, line 1: there is no option config; keyspan config --print shows all"),
            ("# a\nmemory = \"much\"", "FILE, line 2: invalid value 'much' for '--memory <SIZE>': "),
            ("memory = [1]", "FILE, line 1: memory is a text or a number"),
            ("\ntls_required = 1", "FILE, line 2: tls_required is true or false"),
            (
                "listen = \"a\"\ntls_required = true",
                "FILE, line 2: --tls-required wants --tls-cert <FILE> and --tls-key <FILE> too",
            ),
            ("store = \"a\"\nstore = \"b\"", "FILE, line 2: duplicate key"),
            ("store = ", "FILE, line 1: "),
        ] {
            assert!(told(text).starts_with(expected), "{text}: {}", told(text));
        }
        let arguments = arguments("\nlisten = \"a\"", &[], &[]).unwrap();
        assert!(
            arguments
                .with_line("--listen a is no ADDR:PORT")
                .unwrap()
                .ends_with(", line 2: --listen a is no ADDR:PORT")
        );
        assert_eq!(arguments.with_line("cannot open"), None);
    }

    #[test]
    fn what_is_printed_is_a_file_of_all_options() {
        let printed = print();
        let set: String = printed
            .lines()
            .filter_map(|line| line.strip_prefix('#').filter(|line| line.contains(" = ") && !line.starts_with(' ')))
            .fold(String::new(), |all, line| all + line + "\n");
        let settings = settings(&set).unwrap();
        let command = command();
        assert_eq!(settings.len(), shown(&command).count());
        assert!(printed.lines().all(|line| line.chars().count() <= 120), "{printed}");
    }

    #[test]
    fn what_needs_a_restart_is_named() {
        let before = values(&matched("listen = \"a:1\"\nconnections_max = 5", &[], &[]));
        let after = values(&matched("listen = \"a:2\"\naccess = \"f\"\nlog_min_duration_statement = 5", &[], &[]));
        assert_eq!(needs_restart(&before, &after), ["connections_max", "listen"]);
    }
}
