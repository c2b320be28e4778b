//! Who may try to log in from where: rules in the form of PostgreSQL's `pg_hba.conf`.
//!
//! ```text
//! # type     database          role          address          method
//! host       keyspan           all           10.0.0.0/8       scram-sha-256
//! hostssl    all               bi_reader     192.0.2.7/32     scram-sha-256
//! host       all               all           all              reject
//! ```
//!
//! The first rule that fits a connection decides; one that none fits is refused. Without rules every connection may try.
//! Whoever may try still proves a password: `scram-sha-256` and `reject` are the methods that there are. The rules are
//! asked before the password, and know nothing of which roles and databases there are.

use crate::pg::error::{Result, SqlError, SqlState};
use ipnet::IpNet;
use std::net::IpAddr;

/// Rules, at most.
const RULES_MAX: usize = 10_000;

/// The rules, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessRules(Vec<Rule>);

/// What is wrong with a text of rules.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct WrongRule {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

/// A connection that has named a role and a database.
#[derive(Clone, Copy, Debug)]
pub struct Attempt<'a> {
    /// Where it comes from.
    pub address: IpAddr,
    /// Whether it is encrypted.
    pub encrypted: bool,
    /// The database.
    pub database: &'a str,
    /// The role.
    pub role: &'a str,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Whether it is about encrypted connections alone, or about those in the clear; `None` for both.
    encrypted: Option<bool>,
    databases: Vec<Database>,
    /// `None` for all.
    roles: Option<Vec<String>>,
    /// `None` for all.
    network: Option<IpNet>,
    rejects: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Database {
    All,
    /// The one with the name of the role.
    SameUser,
    Named(String),
}

/// A word of a rule; one in quotes is a name, whatever it says.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    text: String,
    quoted: bool,
}

impl AccessRules {
    /// Reads rules.
    ///
    /// # Errors
    /// The first line that is no rule, and why.
    pub fn parse(text: &str) -> std::result::Result<Self, WrongRule> {
        let mut rules = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let wrong = |problem: String| WrongRule { line: number + 1, problem };
            let fields = fields(line).map_err(wrong)?;
            // A server here has no Unix sockets, which the file of every PostgreSQL speaks of.
            if fields.is_empty() || is_word(&fields[0], "local") {
                continue;
            }
            if rules.len() == RULES_MAX {
                return Err(wrong(format!("there are more than {RULES_MAX} rules")));
            }
            rules.push(Rule::of(&fields).map_err(wrong)?);
        }
        Ok(Self(rules))
    }

    /// Checks an attempt to log in.
    ///
    /// # Errors
    /// 28000, in the words of PostgreSQL.
    pub fn check(&self, attempt: &Attempt<'_>) -> Result<()> {
        let who = || {
            let Attempt { address, database, role, encrypted } = attempt;
            let encryption = if *encrypted { "SSL encryption" } else { "no encryption" };
            format!("host \"{address}\", user \"{role}\", database \"{database}\", {encryption}")
        };
        let refused = |message| Err(SqlError::new(SqlState::INVALID_AUTHORIZATION, message));
        match self.0.iter().find(|rule| rule.fits(attempt)) {
            Some(rule) if rule.rejects => refused(format!("access rules reject connection for {}", who())),
            Some(_) => Ok(()),
            None => refused(format!("no access rule for {}", who())),
        }
    }
}

impl Rule {
    fn of(fields: &[Vec<Word>]) -> std::result::Result<Self, String> {
        let [kind, databases, roles, address, rest @ ..] = fields else {
            return Err("a rule has a type, databases, roles, an address and a method".to_owned());
        };
        let encrypted = match single(kind)? {
            "host" => None,
            "hostssl" => Some(true),
            "hostnossl" => Some(false),
            other => return Err(format!("\"{other}\" is no type: host, hostssl and hostnossl are")),
        };
        let (network, method) = match rest {
            [method] => (network(single(address)?, None)?, method),
            [mask, method] => (network(single(address)?, Some(single(mask)?))?, method),
            _ => return Err("a rule ends with its method, which has no options here".to_owned()),
        };
        let rejects = match single(method)? {
            "scram-sha-256" => false,
            "reject" => true,
            other => return Err(format!("\"{other}\" is no method: scram-sha-256 and reject are")),
        };
        let databases = databases.iter().map(Database::of).collect::<std::result::Result<_, _>>()?;
        let roles = if roles.iter().any(|role| is(role, "all")) {
            None
        } else {
            Some(roles.iter().map(name).collect::<std::result::Result<_, _>>()?)
        };
        Ok(Self { encrypted, databases, roles, network, rejects })
    }

    fn fits(&self, attempt: &Attempt<'_>) -> bool {
        self.encrypted.is_none_or(|encrypted| encrypted == attempt.encrypted)
            && self.network.is_none_or(|network| network.contains(&attempt.address.to_canonical()))
            && self.roles.as_ref().is_none_or(|roles| roles.iter().any(|role| role == attempt.role))
            && self.databases.iter().any(|database| match database {
                Database::All => true,
                Database::SameUser => attempt.database == attempt.role,
                Database::Named(name) => name == attempt.database,
            })
    }
}

impl Database {
    fn of(word: &Word) -> std::result::Result<Self, String> {
        match word {
            word if is(word, "all") => Ok(Self::All),
            word if is(word, "sameuser") => Ok(Self::SameUser),
            word if ["samerole", "samegroup", "replication"].iter().any(|other| is(word, other)) => {
                Err(format!("\"{}\" is not supported", word.text))
            }
            word => Ok(Self::Named(name(word)?)),
        }
    }
}

/// A name. PostgreSQL's files, groups and patterns are none here: taken for names they would let nobody in, or too many.
fn name(word: &Word) -> std::result::Result<String, String> {
    if !word.quoted && word.text.starts_with(['@', '+', '/']) {
        return Err(format!("\"{}\" is not supported: names stand here", word.text));
    }
    Ok(word.text.clone())
}

/// The network of an address and its mask; `None` for all.
fn network(address: &str, mask: Option<&str>) -> std::result::Result<Option<IpNet>, String> {
    let wrong = || format!("\"{address}\" is no address: all and 192.0.2.0/24 are of the form that there is");
    if let Some(mask) = mask {
        let (address, mask) = (address.parse::<IpAddr>(), mask.parse::<IpAddr>());
        let network = address.ok().zip(mask.ok()).and_then(|(address, mask)| IpNet::with_netmask(address, mask).ok());
        return network.map(Some).ok_or_else(wrong);
    }
    if address == "all" {
        return Ok(None);
    }
    address.parse::<IpNet>().map(Some).map_err(|_| wrong())
}

fn single(field: &[Word]) -> std::result::Result<&str, String> {
    match field {
        [word] => Ok(&word.text),
        _ => Err("a list stands where there can be none".to_owned()),
    }
}

fn is(word: &Word, what: &str) -> bool {
    !word.quoted && word.text == what
}

fn is_word(field: &[Word], what: &str) -> bool {
    matches!(field, [word] if is(word, what))
}

/// The fields of a line, each a list of words apart by commas; none for a comment.
fn fields(line: &str) -> std::result::Result<Vec<Vec<Word>>, String> {
    let mut fields: Vec<Vec<Word>> = Vec::new();
    let mut rest = line.trim_start();
    // Behind a comma the list goes on.
    let mut goes_on = false;
    while !rest.is_empty() && !rest.starts_with('#') {
        let word;
        (word, rest) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let (text, behind) = quoted.split_once('"').ok_or("a quote has no end")?;
                (Word { text: text.to_owned(), quoted: true }, behind)
            }
            None => {
                let end = rest.find(|char: char| char.is_whitespace() || matches!(char, ',' | '#' | '"'));
                let (text, behind) = rest.split_at(end.unwrap_or(rest.len()));
                (Word { text: text.to_owned(), quoted: false }, behind)
            }
        };
        if word.text.is_empty() && !word.quoted {
            return Err("a word is missing".to_owned());
        }
        match fields.last_mut() {
            Some(list) if goes_on => list.push(word),
            _ => fields.push(vec![word]),
        }
        rest = rest.trim_start();
        goes_on = rest.starts_with(',');
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    if goes_on { Err("a list ends with a comma".to_owned()) } else { Ok(fields) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a connection may try: `role@database address`, with `+` in front for an encrypted one.
    fn may(rules: &AccessRules, attempt: &str) -> bool {
        let (encrypted, attempt) = attempt.strip_prefix('+').map_or((false, attempt), |rest| (true, rest));
        let (who, address) = attempt.rsplit_once(' ').unwrap();
        let (role, database) = who.split_once('@').unwrap();
        rules.check(&Attempt { address: address.parse().unwrap(), encrypted, database, role }).is_ok()
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = AccessRules::parse(
            "# who comes from where\n\
             local all all trust\n\
             host keyspan all 10.0.0.0/8 scram-sha-256\n\
             host keyspan all all reject   # operators come from within\n\
             hostssl all bi, \"all\" 192.0.2.7/32 scram-sha-256\n\
             hostnossl alto,\"b c\" ana 198.51.100.0 255.255.255.0 scram-sha-256\n\
             host sameuser all ::1/128 scram-sha-256\n",
        )
        .unwrap();
        for (attempt, expected) in [
            ("keyspan@keyspan 10.1.2.3", true),
            ("keyspan@keyspan 11.1.2.3", false),
            // An address of the old protocol in the form of the new one.
            ("keyspan@keyspan ::ffff:10.1.2.3", true),
            ("+bi@alto 192.0.2.7", true),
            ("+all@alto 192.0.2.7", true),
            ("+ana@alto 192.0.2.7", false),
            ("bi@alto 192.0.2.7", false),
            ("+bi@keyspan 192.0.2.7", false),
            ("ana@b c 198.51.100.200", true),
            ("+ana@b c 198.51.100.200", false),
            ("ana@alto 198.51.101.1", false),
            ("alto@alto ::1", true),
            ("ana@alto ::1", false),
        ] {
            assert_eq!(may(&rules, attempt), expected, "{attempt}");
        }
    }

    #[test]
    fn refusals_say_who_was_refused() {
        let attempt =
            Attempt { address: "192.0.2.1".parse().unwrap(), encrypted: false, database: "alto", role: "ana" };
        let said = |text| AccessRules::parse(text).unwrap().check(&attempt).unwrap_err();
        assert_eq!(said("").state, SqlState::INVALID_AUTHORIZATION);
        assert_eq!(
            said("").message,
            "no access rule for host \"192.0.2.1\", user \"ana\", database \"alto\", no encryption"
        );
        assert!(said("host all all all reject").message.starts_with("access rules reject connection for host"));
    }

    #[test]
    fn what_is_no_rule_is_refused_with_its_line() {
        for (rule, problem) in [
            ("host all all", "a rule has a type"),
            ("unix all all all reject", "\"unix\" is no type"),
            ("host all all all trust", "\"trust\" is no method"),
            ("host all all all md5", "\"md5\" is no method"),
            ("host all all all cert map=x y z", "a rule ends with its method"),
            ("host all all 300.0.0.1/8 reject", "\"300.0.0.1/8\" is no address"),
            ("host all all db.example.com reject", "\"db.example.com\" is no address"),
            ("host all all 10.0.0.1 255.0.255.0 reject", "\"10.0.0.1\" is no address"),
            ("host all +staff all reject", "\"+staff\" is not supported"),
            ("host @file all all reject", "\"@file\" is not supported"),
            ("host replication all all reject", "\"replication\" is not supported"),
            ("host all, all", "a rule has a type"),
            ("host a, all all reject,", "a list ends with a comma"),
            ("host \"a all all reject", "a quote has no end"),
            ("host a,,b all all reject", "a word is missing"),
        ] {
            let wrong = AccessRules::parse(&format!("\n{rule}\n")).unwrap_err();
            assert_eq!(wrong.line, 2);
            assert!(wrong.problem.starts_with(problem), "{rule}: {}", wrong.problem);
        }
    }
}
