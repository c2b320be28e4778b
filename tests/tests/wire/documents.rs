//! What the documents show: every block runs, against a server of its own, and gives what stands below it.

use super::{
    command::Serving,
    harness::{Harness, PASSWORD, connect, rows},
};
use anyhow::{Context, Result};
use futures::{SinkExt, TryStreamExt};
use std::{
    collections::{BTreeSet, HashMap},
    path::{Path, PathBuf},
};
use tokio_postgres::Client;

/// The blocks of a document in a language, each with the heading that it stands under.
fn blocks(document: &str, language: &str) -> Vec<(String, String)> {
    let (mut found, mut heading, mut block) = (Vec::new(), String::new(), None::<String>);
    for line in document.lines() {
        match &mut block {
            Some(text) if line == "```" => {
                found.push((heading.clone(), std::mem::take(text)));
                block = None;
            }
            Some(text) => *text += &format!("{line}\n"),
            None if line == format!("```{language}") => block = Some(String::new()),
            // Of another language.
            None if line.starts_with("## ") => line[3..].clone_into(&mut heading),
            None => {}
        }
    }
    found
}

fn document(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reference_shows_in_sql_runs() -> Result<()> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    harness.tenant("a").await?;
    let sql = blocks(&document("sql.md")?, "sql");
    assert!(sql.len() > 4, "{sql:?}");
    // The table that the examples speak of, for those before the one that makes it.
    let table = sql.iter().find(|(_, block)| block.starts_with("CREATE TABLE")).context("the table")?;
    let table = table.1.split("\n\n").next().context("its definition")?;
    let tenant = async || connect(&harness.config("a", PASSWORD, "a")).await;
    for (heading, block) in &sql {
        // What it shows lies days back; `history` has tests of its own.
        if block.contains("FOR SYSTEM_TIME") {
            continue;
        }
        let is_tenants = block.starts_with("-- in database \"altostrat\"");
        if !is_tenants && ["Tenants and roles", "Tables"].contains(&heading.as_str()) {
            if block.starts_with("CREATE TABLE readings") {
                operator.batch_execute("DROP TABLE IF EXISTS readings").await?;
            }
            operator.batch_execute(block).await.with_context(|| block.clone())?;
            continue;
        }
        if rows(&operator, "SELECT 1 FROM pg_class WHERE relname = 'readings'").await?.is_empty() {
            operator.batch_execute(table).await?;
        }
        // The tenant of this test has another name.
        if block.contains(" ben") {
            operator.batch_execute("GRANT CONNECT ON DATABASE a TO ben").await?;
        }
        let client = tenant().await?;
        if block.contains("FROM STDIN") {
            copy(&client, block).await.with_context(|| block.clone())?;
        } else {
            client.batch_execute(block).await.with_context(|| block.clone())?;
        }
    }
    Ok(())
}

/// Runs COPYs over the connection, in which a client takes part: of a header alone, and of all rows.
async fn copy(client: &Client, block: &str) -> Result<()> {
    let text: String = block.lines().filter(|line| !line.starts_with("--")).map(|line| format!("{line}\n")).collect();
    for statement in text.split(";\n").map(str::trim).filter(|statement| !statement.is_empty()) {
        if statement.contains("FROM STDIN") {
            let mut sink = std::pin::pin!(client.copy_in(statement).await?);
            sink.send(bytes::Bytes::from_static(b"device_type,device_id,at,temperature\n")).await?;
            assert_eq!(sink.finish().await?, 0);
        } else {
            let parts: Vec<bytes::Bytes> = client.copy_out(statement).await?.try_collect().await?;
            assert!(!parts.is_empty(), "{statement}");
        }
    }
    Ok(())
}

/// Where a block runs: `-- in database "altostrat", as ana`; without such a line in the last tenant that was named or
/// made, as its owner.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place {
    database: String,
    role: String,
}

fn place(block: &str) -> Option<Place> {
    let line = block.lines().next()?.strip_prefix("-- in database \"")?;
    let (database, rest) = line.split_once('"')?;
    let role = rest.strip_prefix(", as ").unwrap_or("keyspan");
    Some(Place { database: database.to_owned(), role: role.trim().to_owned() })
}

/// Whether lines are those that are expected; `…` stands for any number of them.
fn fits(found: &[&str], expected: &[&str]) -> bool {
    match expected.split_first() {
        None => found.is_empty(),
        Some((&"…", rest)) => (0..=found.len()).any(|skipped| fits(&found[skipped..], rest)),
        Some((line, rest)) => found.first() == Some(line) && fits(&found[1..], rest),
    }
}

/// Runs the blocks of a page in their order; gives how many of them say what they give.
async fn run(page: &str) -> Result<usize> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    let text = document(page)?;
    let (mut checked, mut clients) = (0, HashMap::<Place, Client>::new());
    let mut tenant = None::<Place>;
    for part in text.split("```sql\n").skip(1) {
        let (block, rest) = part.split_once("```").context("the end of a block")?;
        let place = match (place(block), &tenant) {
            (Some(place), _) => place,
            (None, Some(tenant)) => tenant.clone(),
            // The tenant that the page has made, whose owner the test adds.
            (None, None) => {
                let made = text.split("CREATE DATABASE ").nth(1).and_then(|rest| rest.split([';', ' ']).next());
                let name = made.context("a tenant")?.to_owned();
                let sql = format!("CREATE ROLE {name} LOGIN; ALTER DATABASE {name} OWNER TO {name}");
                operator.batch_execute(&sql).await?;
                let place = Place { database: name.clone(), role: name };
                tenant = Some(place.clone());
                place
            }
        };
        if place.role != "keyspan" && !clients.contains_key(&place) {
            operator.batch_execute(&format!("ALTER ROLE {} PASSWORD '{PASSWORD}'", place.role)).await?;
            clients.insert(place.clone(), harness.connect(&place.role, &place.database).await?);
        }
        let client = clients.get(&place).unwrap_or(&operator);
        let (before, last) = block.trim_end().trim_end_matches(';').rsplit_once(";\n").unwrap_or(("", block));
        // Each alone, as psql sends them: several in one message are one transaction.
        for statement in before.split(";\n").filter(|statement| !statement.is_empty()) {
            client.batch_execute(statement).await.with_context(|| format!("{page}: {statement}"))?;
        }
        let found = rows(client, last).await.with_context(|| format!("{page}: {last}"))?;
        if let Some(expected) = rest.trim_start().strip_prefix("```text\n") {
            let expected: Vec<&str> = expected.lines().take_while(|line| *line != "```").map(str::trim).collect();
            let found: Vec<&str> = found.iter().map(|line| line.trim().trim_start_matches("->").trim()).collect();
            assert!(fits(&found, &expected), "{page}: {block}\ngives {found:#?}");
            checked += 1;
        }
    }
    Ok(checked)
}

macro_rules! pages {
    ($($name:ident: $page:literal, $least:literal;)*) => {
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() -> Result<()> {
            let checked = run($page).await?;
            assert!(checked >= $least, "{checked} blocks");
            Ok(())
        })*
    };
}

pages! {
    the_quickstart_runs: "quickstart.md", 7;
    the_examples_give_what_stands_below_them: "examples.md", 9;
    modelling_gives_what_stands_below_it: "modelling.md", 11;
    a_thousand_tenants_run: "tenants.md", 6;
    coming_from_postgres_runs: "from-postgresql.md", 2;
    coming_from_bigtable_runs: "from-bigtable.md", 7;
    operation_runs: "operate.md", 1;
    security_gives_what_stands_below_it: "security.md", 8;
}

/// Each code that the server gives is on the page of codes, and no other.
#[test]
fn the_page_of_sqlstates_has_all_of_them() -> Result<()> {
    let is_code =
        |word: &&str| word.len() == 5 && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let source = document("../gateway/pg/src/error.rs")?;
    let given: BTreeSet<&str> =
        source.lines().filter_map(|line| line.split_once("= \"")?.1.strip_suffix("\";")).filter(is_code).collect();
    let page = document("errors.md")?;
    let first_columns = page.lines().filter_map(|line| line.strip_prefix("| ")?.split('|').next());
    let told: BTreeSet<&str> = first_columns.flat_map(|column| column.trim().split(", ")).filter(is_code).collect();
    assert!(given.len() > 80, "{given:?}");
    assert_eq!(told, given);
    Ok(())
}

/// The anchor of a heading, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars()
        .filter(|char| char.is_alphanumeric() || "-_ ".contains(*char))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// Links within the documents lead to files and headings that there are.
#[test]
fn links_lead_somewhere() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut pages: Vec<PathBuf> = vec![root.join("README.md"), root.join("ARCHITECTURE.md"), root.join("CHANGELOG.md")];
    for entry in std::fs::read_dir(root.join("docs"))? {
        pages.extend(Some(entry?.path()).filter(|path| path.extension().is_some_and(|extension| extension == "md")));
    }
    let mut seen = 0;
    for page in &pages {
        let text = std::fs::read_to_string(page)?.replace('\n', " ");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let folder = page.parent().context("a folder")?;
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            assert!(target.exists(), "{}: {link}", page.display());
            if !heading.is_empty() {
                let text = std::fs::read_to_string(&target)?;
                let headings =
                    text.lines().filter(|line| line.starts_with('#')).map(|line| anchor(line.trim_start_matches('#')));
                assert!(headings.into_iter().any(|there| there == heading), "{}: {link}", page.display());
            }
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} links");
    Ok(())
}

#[tokio::test]
async fn what_the_documents_show_on_the_command_line_is_understood() -> Result<()> {
    let mut seen = 0;
    for name in ["operate.md", "quickstart.md", "security.md", "../README.md"] {
        let text = document(name)?;
        let shells = ["sh", "console"].map(|language| blocks(&text, language)).concat();
        for line in shells.iter().flat_map(|(_, block)| block.lines()) {
            let ends = |word: &str| word.starts_with('#') || [">", "|"].contains(&word);
            let words: Vec<&str> = line.split_whitespace().take_while(|word| !ends(word)).collect();
            let Some(arguments) = words.strip_prefix(&["keyspan"]) else { continue };
            // Whatever is wrong before it is told in its place.
            let output = super::command::keyspan().args(arguments).arg("--help").output().await?;
            assert!(output.status.success(), "{name}: {line}: {}", String::from_utf8_lossy(&output.stderr));
            seen += 1;
        }
    }
    assert!(seen > 4, "{seen} command lines");
    Ok(())
}

/// Runs the commands of the page of operation, one after the other beside a server; paths and addresses are the test's.
#[tokio::test(flavor = "multi_thread")]
async fn what_operation_shows_on_the_command_line_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let at = |name: &str| folder.path().join(name).display().to_string();
    let serving = Serving::start(&folder.path().join("store"), Some(PASSWORD)).await?;
    let operator = connect(&serving.config(PASSWORD)).await?;
    operator.batch_execute("CREATE TABLE t (k bigint PRIMARY KEY)").await?;
    let made = format!("CREATE ROLE ana SUPERUSER LOGIN PASSWORD '{PASSWORD}'");
    for statement in [&made, "CREATE DATABASE alto", "CREATE DATABASE altostrat OWNER ana"] {
        operator.batch_execute(statement).await?;
    }
    operator.batch_execute("INSERT INTO t (tenant, k) VALUES ('alto', 1), ('alto', 2)").await?;
    std::fs::write(at("telemetry.pb"), super::protobuf::descriptors())?;
    let certificate = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()])?;
    std::fs::write(at("server.crt"), certificate.cert.pem())?;
    std::fs::write(at("server.key"), certificate.signing_key.serialize_pem())?;
    let address = serving.address.to_string();
    let (mut ran, mut served) = (0, 0);
    for (_, block) in blocks(&document("operate.md")?, "sh") {
        for line in block.lines().filter_map(|line| line.strip_prefix("keyspan ")) {
            let (line, output) = line.split_once(" > ").map_or((line, None), |(line, file)| (line, Some(file)));
            let word = |word: &str| match word {
                "/srv/keyspan" => at("store"),
                "/srv/restored" => at("restored"),
                "/backup/2026-11-21" => at("backup"),
                "/backup/alto" => at("alto"),
                "127.0.0.1:5433" | "10.0.0.7:5432" => address.clone(),
                word => word.to_owned(),
            };
            let mut command = super::command::keyspan();
            command.current_dir(folder.path()).env("KEYSPAN_PASSWORD", PASSWORD);
            if let Some(rest) = line.strip_prefix("serve ") {
                // Beside the server of this test: on a free port, over a store of its own.
                let rest = rest.split_once(" --listen").map_or(rest, |(before, _)| before);
                let words = rest.split(' ').map(|word| word.replace("/srv/keyspan", &at(&format!("served-{served}"))));
                command.arg("serve").args(words).args(["--listen", "127.0.0.1:0"]);
                let other = Serving::spawn(command).await.with_context(|| line.to_owned())?;
                let status = other.signal(rustix::process::Signal::TERM).await?.status;
                assert!(status.success(), "{line}");
                served += 1;
                continue;
            }
            command.args(line.split(' ').map(word));
            if line.starts_with("proto") && !line.contains("--server") {
                command.args(["--server", &address]);
            }
            let done = command.output().await?;
            assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
            if let Some(file) = output {
                std::fs::write(at(file), &done.stdout)?;
            }
            ran += 1;
        }
    }
    assert!((ran, served) >= (9, 3), "{ran} commands, {served} servers");
    let counted = "SELECT tenant, count(*) FROM t GROUP BY tenant ORDER BY tenant";
    assert_eq!(rows(&operator, counted).await?, ["alto|2", "alto-old|2"]);
    assert_eq!(rows(&operator, "SELECT count(*) > 0 FROM keyspan.proto_messages").await?, ["t"]);
    Ok(())
}
