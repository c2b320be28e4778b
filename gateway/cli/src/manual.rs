//! `keyspan completions` and `keyspan man`: the command line told to shells and to man, made of the options themselves.

use anyhow::{Context, Result};
use clap::{Args, Command, ValueEnum};
use std::{
    fs,
    io::{Write, stdout},
    path::{Path, PathBuf},
};

pub(crate) const COMPLETIONS_HELP: &str = "\
Examples:
  keyspan completions bash >~/.local/share/bash-completion/completions/keyspan
  keyspan completions zsh >~/.zfunc/_keyspan
  keyspan completions fish >~/.config/fish/completions/keyspan.fish";

pub(crate) const MAN_HELP: &str = "\
Examples:
  keyspan man | man -l -
  keyspan man --out ~/.local/share/man/man1";

/// A shell that completes options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// With the package bash-completion.
    Bash,
    /// By a folder in `fpath`.
    Zsh,
    /// By its folder of completions.
    Fish,
}

/// What `keyspan man` takes.
#[derive(Clone, Debug, Args)]
pub struct ManOptions {
    /// Write a page for each command into this folder, which is made if it is not there, instead of the first page to
    /// standard output.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Writes the completions of `command` to standard output.
///
/// # Errors
/// If standard output cannot be written.
pub fn completions(command: Command, shell: Shell) -> Result<()> {
    stdout().write_all(&completions_of(command, shell)).context("cannot write to standard output")
}

fn completions_of(mut command: Command, shell: Shell) -> Vec<u8> {
    let name = command.get_name().to_owned();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    // Into memory first: the generator panics where a write fails, as into a closed pipe.
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}

/// Writes the manual of `command`.
///
/// # Errors
/// If standard output, the folder or a file in it cannot be written.
pub fn write(command: Command, options: &ManOptions) -> Result<()> {
    let pages = pages(command)?;
    match &options.out {
        None => stdout().write_all(&pages[0].1).context("cannot write to standard output"),
        Some(folder) => write_into(folder, &pages),
    }
}

fn write_into(folder: &Path, pages: &[(String, Vec<u8>)]) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (name, text) in pages {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Names of files and their texts: the page of the program, then one for each of its commands, to the last.
fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let name = command.get_name().to_owned();
    // `help` would repeat every command.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    // In the order of the help text: the last one pushed comes first.
    let mut rest = vec![(command, name)];
    while let Some((command, name)) = rest.pop() {
        let below: Vec<_> = command.get_subcommands().filter(|below| !below.is_hide_set()).cloned().collect();
        rest.extend(below.into_iter().rev().map(|below| {
            let page = format!("{name}-{}", below.get_name());
            (below, page)
        }));
        // The manual is the long form: what -h leaves out would have a name and no text.
        let command = command.mut_args(|arg| arg.hide_short_help(false));
        let mut text = Vec::new();
        clap_mangen::Man::new(command.display_name(&name))
            .title(name.to_uppercase())
            .manual("Keyspan")
            .source(concat!("keyspan ", env!("CARGO_PKG_VERSION")))
            .render(&mut text)
            .with_context(|| format!("cannot make the page {name}"))?;
        pages.push((format!("{name}.1"), text));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_shell_completes_every_command() {
        for shell in Shell::value_variants() {
            let text = String::from_utf8(completions_of(Cli::command(), *shell)).unwrap();
            for command in Cli::command().get_subcommands() {
                assert!(text.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
            assert!(text.contains("cold-codec"), "{shell:?}");
        }
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages(Cli::command()).unwrap();
        let names: Vec<_> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names[0], "keyspan.1");
        for command in Cli::command().get_subcommands() {
            assert!(names.contains(&format!("keyspan-{}.1", command.get_name()).as_str()), "{}", command.get_name());
        }
        assert!(names.contains(&"keyspan-proto-import.1"), "{names:?}");
        assert!(!names.iter().any(|name| name.contains("help")), "{names:?}");
        for (name, text) in &pages {
            let text = String::from_utf8(text.clone()).unwrap();
            assert!(text.contains(".SH SYNOPSIS"), "{name}");
        }
    }

    #[test]
    fn a_folder_gets_the_pages() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("man1");
        write(Cli::command(), &ManOptions { out: Some(folder.clone()) }).unwrap();
        let page = fs::read_to_string(folder.join("keyspan-serve.1")).unwrap();
        assert!(page.contains("keyspan\\-serve"), "{page}");
        assert!(page.contains("KEYSPAN_MEMORY"), "{page}");
        // An option that `-h` does not show.
        assert!(page.contains("Size at which the rows in memory are written"), "{page}");
    }
}
