//! What tables tell of themselves: `keyspan.tables`, `keyspan.families`, `keyspan.columns`, options in the catalog,
//! `SHOW TABLES`, `DESCRIBE`, and statements of `SHOW CREATE` that make the same again.

use super::harness::{Harness, error, rows};
use anyhow::{Context, Result};
use tokio_postgres::Client;

const READINGS: &str = "CREATE TABLE readings (
    device_type text, device_id text, at timestamptz, temperature double precision, humidity numeric(5, 2), log text,
    PRIMARY KEY (device_type, device_id, at DESC),
    FAMILY m (temperature, humidity), FAMILY logs (log), FAMILY spare ()
) WITH (m.max_versions = 5, m.max_age = '30 days', logs.max_age = '1 hour 30 min', logs.encoding = text, salt = 8,
    history = '7 days')";

/// A server with a shared table and two tenants, the first with a private table.
async fn start() -> Result<(Harness, Client, Client, Client)> {
    let harness = Harness::start().await?;
    let operator = harness.operator().await?;
    operator.batch_execute(READINGS).await?;
    let (alto, basso) = (harness.tenant("alto").await?, harness.tenant("basso").await?);
    alto.batch_execute(
        "CREATE TABLE notes (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text DEFAULT 'none', n int NOT NULL)",
    )
    .await?;
    Ok((harness, operator, alto, basso))
}

#[tokio::test]
async fn relations_tell_families_rules_and_places() -> Result<()> {
    let (harness, operator, alto, basso) = start().await?;
    let tables = "SELECT tenant, table_name, kind, primary_key, key_encoding, salt, history, history_since <= now(),
        on_bad_value, on_bad_key FROM keyspan.tables ORDER BY table_name";
    let of_tenant = "|readings|shared|{device_type,device_id,\"at DESC\"}|delimited|8|7 days|t|error|skip";
    let notes = "alto|notes|private|{id}|ordered|||||error|skip".replace("|||||", "||||");
    assert_eq!(rows(&alto, tables).await?, [notes.as_str(), of_tenant]);
    assert_eq!(rows(&basso, tables).await?, [of_tenant]);
    let of_operator = of_tenant.replace("{device_type", "{tenant,device_type");
    assert_eq!(rows(&operator, tables).await?, [notes.as_str(), &of_operator]);

    let families = "SELECT family, columns, rule, max_versions, max_age, aggregate, encoding FROM keyspan.families
        WHERE table_name = 'readings' ORDER BY family";
    let expected = [
        "logs|{log}|age > 1 hour 30 minutes||1 hour 30 minutes||text",
        "m|{temperature,humidity}|versions > 5 OR age > 30 days|5|30 days||binary",
        "spare|{}|||||",
    ];
    for client in [&alto, &basso, &operator] {
        assert_eq!(rows(client, families).await?, expected);
    }

    let columns = "SELECT column_number, column_name, data_type, not_null, column_default, family, qualifier, encoding,
        rule, key_part, direction FROM keyspan.columns WHERE table_name = $$readings$$ ORDER BY column_number";
    let mut shown = vec![
        "1|device_type|text|t||||||1|asc",
        "2|device_id|text|t||||||2|asc",
        "3|at|timestamp with time zone|t||||||3|desc",
        "4|temperature|double precision|f||m|temperature|binary|versions > 5 OR age > 30 days||",
        "5|humidity|numeric(5,2)|f||m|humidity|binary|versions > 5 OR age > 30 days||",
        "6|log|text|f||logs|log|text|age > 1 hour 30 minutes||",
    ];
    assert_eq!(rows(&alto, columns).await?, shown);
    assert_eq!(rows(&operator, columns).await?[..2], ["1|tenant|text|t||||||1|asc", "2|device_type|text|t||||||2|asc"]);
    // A column that is dropped and made again, and one that is renamed, keep qualifiers of their own.
    operator
        .batch_execute("ALTER TABLE readings DROP COLUMN log; ALTER TABLE readings ADD COLUMN log text FAMILY m")
        .await?;
    operator
        .batch_execute("ALTER TABLE readings DROP COLUMN log; ALTER TABLE readings ADD COLUMN log text FAMILY m")
        .await?;
    operator.batch_execute("ALTER TABLE readings RENAME COLUMN humidity TO damp").await?;
    shown[4] = "5|damp|numeric(5,2)|f||m|humidity|binary|versions > 5 OR age > 30 days||";
    shown[5] = "8|log|text|f||m|log~1|binary|versions > 5 OR age > 30 days||";
    assert_eq!(rows(&basso, columns).await?, shown);

    let private = columns.replace("readings", "notes");
    let expected = [
        "1|id|integer|t|GENERATED ALWAYS AS IDENTITY|||||1|asc",
        "2|body|text|f|'none'::text|cf|body|binary|versions > 1||",
        "3|n|integer|t||cf|n|binary|versions > 1||",
    ];
    assert_eq!(rows(&alto, &private).await?, expected);
    assert_eq!(rows(&operator, &private).await?, expected);
    assert_eq!(rows(&basso, &private).await?, [""; 0], "another tenant's table");
    let others = "SELECT count(*) FROM keyspan.tables t JOIN keyspan.families f USING (oid) WHERE t.tenant IS NOT NULL";
    assert_eq!(rows(&basso, others).await?, ["0"]);
    drop(harness);
    Ok(())
}

#[tokio::test]
async fn the_catalog_has_the_options() -> Result<()> {
    let (_harness, operator, alto, _) = start().await?;
    let options = "SELECT array_to_string(reloptions, '; ') FROM pg_class WHERE relname = 'readings'";
    let expected = "key_encoding=delimited; salt=8; history=7 days; m.max_versions=5; m.max_age=30 days; \
        logs.max_age=1 hour 30 minutes; logs.encoding=text; m.columns=(temperature, humidity); logs.columns=(log); \
        spare.columns=()";
    assert_eq!(rows(&alto, options).await?, [expected]);
    assert_eq!(rows(&operator, options).await?, [expected]);
    let of_column = "SELECT attname, attoptions FROM pg_attribute WHERE attrelid = 'readings'::regclass
        AND attoptions IS NOT NULL ORDER BY attnum";
    let expected = [
        "temperature|{family=m,qualifier=temperature,encoding=binary}",
        "humidity|{family=m,qualifier=humidity,encoding=binary}",
        "log|{family=logs,qualifier=log,encoding=text}",
    ];
    assert_eq!(rows(&alto, of_column).await?, expected);
    assert_eq!(rows(&operator, of_column).await?, expected);
    let private = "SELECT reloptions IS NULL FROM pg_class WHERE relname = 'notes'";
    assert_eq!(rows(&alto, private).await?, ["t"]);
    let taken_apart = "SELECT option_name, option_value FROM pg_class, pg_options_to_table(reloptions)
        WHERE relname = 'readings' AND option_name IN ('salt', 'history') ORDER BY 1";
    assert_eq!(rows(&alto, taken_apart).await?, ["history|7 days", "salt|8"]);
    Ok(())
}

#[tokio::test]
async fn tables_are_listed_and_described() -> Result<()> {
    let (_harness, operator, alto, basso) = start().await?;
    alto.batch_execute("CREATE VIEW warm AS SELECT device_id, temperature FROM readings WHERE temperature > 30")
        .await?;
    alto.batch_execute("CREATE TEMP TABLE batch (k int)").await?;
    let listed = rows(&alto, "SHOW TABLES").await?;
    assert!(listed[0].starts_with("pg_temp_") && listed[0].ends_with("|batch|temporary table|alto"), "{listed:?}");
    assert_eq!(
        listed[1..],
        ["public|notes|private table|alto", "public|readings|shared table|alto", "public|warm|view|alto"]
    );
    assert_eq!(rows(&basso, "SHOW TABLES").await?, ["public|readings|shared table|basso"]);
    let described = [
        "device_type|text|NO|PRI 1|||",
        "device_id|text|NO|PRI 2|||",
        "at|timestamp with time zone|NO|PRI 3 DESC|||",
        "temperature|double precision|YES|||m|binary",
        "humidity|numeric(5,2)|YES|||m|binary",
        "log|text|YES|||logs|text",
    ];
    for asked in
        ["DESCRIBE readings", "DESC public.readings", "SHOW COLUMNS FROM readings", "describe alto.public.readings;"]
    {
        assert_eq!(rows(&alto, asked).await?, described, "{asked}");
    }
    assert_eq!(
        rows(&operator, "DESCRIBE readings").await?[..2],
        ["tenant|text|NO|PRI 1|||", "device_type|text|NO|PRI 2|||"]
    );
    let notes =
        ["id|integer|NO|PRI 1|GENERATED ALWAYS AS IDENTITY||", "body|text|YES||'none'::text||", "n|integer|NO||||"];
    assert_eq!(rows(&alto, "DESCRIBE notes").await?, notes);
    let warm = ["device_id|text|YES||||", "temperature|double precision|YES||||"];
    assert_eq!(rows(&alto, "DESCRIBE warm").await?, warm);
    assert_eq!(rows(&alto, "DESCRIBE keyspan.families").await?[..2], ["oid|oid|YES||||", "tenant|text|YES||||"]);
    // By the extended protocol, where columns are described before they are asked for.
    let described = alto.query("DESCRIBE notes", &[]).await?;
    assert_eq!(described[1].get::<_, Option<&str>>("default"), Some("'none'::text"));
    assert_eq!(described[1].get::<_, Option<&str>>("family"), None);

    for (asked, refused) in [
        ("DESCRIBE nix", "42P01 relation \"nix\" does not exist"),
        ("DESCRIBE keyspan.segments", "42P01 relation \"keyspan.segments\" does not exist"),
        ("DESCRIBE notes_id_seq", "42809 \"notes_id_seq\" is not a table or view"),
        ("DESCRIBE", "42601 syntax error at end of input"),
        ("SHOW CREATE TABLE nix", "42P01 relation \"nix\" does not exist"),
        ("SHOW CREATE TABLE warm", "42809 \"warm\" is not a table"),
        ("SHOW CREATE VIEW notes", "42809 \"notes\" is not a view"),
        ("SHOW CREATE SEQUENCE notes", "42809 \"notes\" is not a sequence"),
        ("SHOW CREATE SEQUENCE nix", "42P01 relation \"nix\" does not exist"),
        ("SHOW CREATE TABLE pg_catalog.pg_class", "42809 \"pg_catalog.pg_class\" is not a table"),
        ("SHOW CREATE INDEX nix", "42601 syntax error at or near \"index\""),
        ("SHOW tables_nix", "42704 unrecognized configuration parameter \"tables_nix\""),
    ] {
        assert_eq!(error(&alto, asked).await.to_lowercase(), refused.to_lowercase(), "{asked}");
    }
    assert_eq!(error(&basso, "DESCRIBE notes").await, "42P01 relation \"notes\" does not exist");
    Ok(())
}

/// The statement of `SHOW CREATE`.
async fn created(client: &Client, what: &str) -> Result<String> {
    let row = client.query_one(&format!("SHOW CREATE {what}"), &[]).await?;
    Ok(row.get::<_, String>("statement"))
}

#[tokio::test]
async fn statements_are_shown_that_make_the_same_again() -> Result<()> {
    let (_harness, operator, alto, basso) = start().await?;
    let shown = created(&alto, "TABLE readings").await?;
    assert_eq!(
        shown,
        "CREATE TABLE readings (
    device_type text,
    device_id text,
    at timestamp with time zone,
    temperature double precision,
    humidity numeric(5,2),
    log text,
    PRIMARY KEY (device_type, device_id, at DESC),
    FAMILY m (temperature, humidity),
    FAMILY logs (log),
    FAMILY spare ()
) WITH (key_encoding = 'delimited', salt = 8, history = '7 days', m.max_versions = 5, m.max_age = '30 days', \
        logs.max_age = '1 hour 30 minutes', logs.encoding = 'text')"
    );
    assert_eq!(created(&operator, "TABLE readings").await?, shown);

    alto.batch_execute(
        "CREATE TABLE \"Odd \"\"one\" (a bigserial, \"user\" text NOT NULL DEFAULT 'it''s', \"b c\" numeric(6, 3)[],
             d smallint GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME odd_numbers START WITH 7 INCREMENT BY 3 MAXVALUE 70 CYCLE),
             CONSTRAINT \"user is\" CHECK (\"user\" <> ''), PRIMARY KEY (\"user\" DESC, a));
         CREATE SEQUENCE down INCREMENT BY -2 MAXVALUE 100 START WITH 50;
         CREATE TABLE after (n bigint DEFAULT nextval('down'));
         CREATE VIEW odd (first, second) AS SELECT \"user\", a + 1 FROM \"Odd \"\"one\" WHERE a > 1",
    )
    .await?;
    assert_eq!(
        created(&alto, "TABLE \"Odd \"\"one\"").await?,
        "CREATE TABLE \"Odd \"\"one\" (
    a bigserial,
    \"user\" text DEFAULT 'it''s'::text,
    \"b c\" numeric(6,3)[],
    d smallint GENERATED BY DEFAULT AS IDENTITY (SEQUENCE NAME odd_numbers START WITH 7 INCREMENT BY 3 MAXVALUE 70 CYCLE),
    PRIMARY KEY (\"user\" DESC, a),
    CONSTRAINT \"user is\" CHECK (\"user\" <> '')
)"
    );
    for what in ["TABLE \"Odd \"\"one\"", "TABLE notes", "SEQUENCE down", "TABLE after", "VIEW odd"] {
        let statement = created(&alto, what).await?;
        basso.batch_execute(&statement).await.with_context(|| statement.clone())?;
        assert_eq!(created(&basso, what).await?, statement);
    }
    let columns =
        "SELECT table_name, column_number, column_name, data_type, not_null, column_default, family, qualifier,
        encoding, key_part, direction FROM keyspan.columns ORDER BY table_name, column_number";
    assert_eq!(rows(&basso, columns).await?, rows(&alto, columns).await?);
    let sequences = "SELECT relname, seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcycle
        FROM pg_sequence JOIN pg_class ON seqrelid = pg_class.oid ORDER BY relname";
    assert_eq!(rows(&basso, sequences).await?, rows(&alto, sequences).await?);
    let views = "SELECT viewname, definition FROM pg_views";
    assert_eq!(rows(&basso, views).await?, rows(&alto, views).await?);
    Ok(())
}

/// Random definitions: SplitMix64 (Steele, Lea and Flood, 2014) chooses.
struct Definitions(u64);

const KEY_TYPES: [&str; 8] = ["text", "varchar(20)", "bigint", "smallint", "date", "timestamptz", "uuid", "boolean"];
const CELL_TYPES: [(&str, &str); 9] = [
    ("text", "'x''y'"),
    ("varchar(5)", "'abc'"),
    ("bigint", "7"),
    ("double precision", "1.5"),
    ("numeric(12, 4)", "2.5"),
    ("jsonb", "'{\"a\": 1}'"),
    ("timestamptz", "now()"),
    ("uuid", "gen_random_uuid()"),
    ("integer[]", "'{1,2}'"),
];
const AGES: [&str; 4] = ["90 s", "1 day 3 hours", "12 weeks", "15 ms"];
const RULES: [&str; 3] = [
    "versions > 3 OR (age > 7 days AND versions > 1)",
    "age > 7 days AND versions > 2",
    "(versions > 9 OR age > 1 hour) AND (versions > 2 OR age > 30 days)",
];

impl Definitions {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % bound as u64).expect("an index")
    }

    fn often(&mut self) -> bool {
        self.below(2) == 0
    }

    /// The columns, conditions and key of a table `t`, and its columns that are cells.
    fn columns(&mut self, shared: bool) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut parts, mut cells) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..1 + self.below(3) {
            let kind = KEY_TYPES[self.below(KEY_TYPES.len())];
            let text = kind == "text" || kind.starts_with("varchar");
            let order = match (self.often(), self.often()) {
                (true, true) if text || matches!(kind, "smallint" | "integer" | "bigint") => " REVERSED",
                (true, _) if !(shared && text) => " DESC",
                _ => "",
            };
            lines.push(format!("\"k {at}\" {kind}"));
            parts.push(format!("\"k {at}\"{order}"));
        }
        for at in 0..self.below(6) {
            let (kind, default) = CELL_TYPES[self.below(CELL_TYPES.len())];
            let default = if self.often() { format!(" DEFAULT {default}") } else { String::new() };
            let not_null = if self.often() { " NOT NULL" } else { "" };
            let check =
                if kind == "bigint" && self.often() { format!(" CHECK (\"C{at}\" > 3)") } else { String::new() };
            lines.push(format!("\"C{at}\" {kind}{default}{not_null}{check}"));
            cells.push(format!("\"C{at}\""));
        }
        lines.push(format!("PRIMARY KEY ({})", parts.join(", ")));
        (lines, cells)
    }

    fn private(&mut self) -> String {
        let (lines, _) = self.columns(false);
        format!("CREATE TABLE t ({})", lines.join(", "))
    }

    fn shared(&mut self) -> String {
        let (mut lines, cells) = self.columns(true);
        let mut options = Vec::new();
        let families = ["m", "logs", "Big"];
        let mut of: Vec<Vec<String>> = vec![Vec::new(); families.len()];
        for cell in cells {
            of[self.below(families.len())].push(cell);
        }
        for (family, columns) in families.iter().zip(of) {
            lines.push(format!("FAMILY \"{family}\" ({})", columns.join(", ")));
            if self.below(4) == 0 {
                let rule = RULES[self.below(RULES.len())];
                options.push(format!("\"{family}\".gc = '{rule}'"));
            } else {
                if self.often() {
                    options.push(format!("\"{family}\".max_versions = {}", 1 + self.below(9)));
                }
                if self.often() {
                    options.push(format!("\"{family}\".max_age = '{}'", AGES[self.below(AGES.len())]));
                }
            }
            if self.often() {
                options.push(format!("\"{family}\".encoding = {}", ["binary", "text", "json"][self.below(3)]));
            }
        }
        for option in [
            "key_encoding = 'ordered'",
            "salt = 4",
            "on_bad_value = 'null'",
            "on_bad_key = error",
            "history = '3 days'",
        ] {
            if self.often() {
                options.push(option.to_owned());
            }
        }
        let options = if options.is_empty() { String::new() } else { format!(" WITH ({})", options.join(", ")) };
        format!("CREATE TABLE t ({}){options}", lines.join(", "))
    }
}

/// All that there is to tell of a table `t`.
async fn told(client: &Client) -> Result<Vec<String>> {
    let mut told = Vec::new();
    for asked in [
        "SELECT kind, primary_key, key_encoding, salt, history, on_bad_value, on_bad_key, options FROM keyspan.tables
         WHERE table_name = 't'",
        "SELECT family, columns, rule, aggregate, encoding FROM keyspan.families WHERE table_name = 't' ORDER BY family",
        "SELECT column_number, column_name, data_type, not_null, column_default, family, qualifier, encoding, rule,
         key_part, direction FROM keyspan.columns WHERE table_name = 't' ORDER BY column_number",
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 't'::regclass ORDER BY 1",
    ] {
        told.extend(rows(client, asked).await?);
    }
    Ok(told)
}

#[tokio::test]
async fn random_tables_are_made_again_by_their_statements() -> Result<()> {
    let (_harness, operator, alto, basso) = start().await?;
    let mut definitions = Definitions(15);
    for round in 0..60 {
        let private = round % 2 == 0;
        let (here, there) = if private { (&alto, &basso) } else { (&operator, &operator) };
        let definition = if private { definitions.private() } else { definitions.shared() };
        here.batch_execute(&definition).await.with_context(|| definition.clone())?;
        let (statement, first) = (created(here, "TABLE t").await?, told(here).await?);
        here.batch_execute("DROP TABLE t").await?;
        there.batch_execute(&statement).await.with_context(|| format!("{definition}\n{statement}"))?;
        assert_eq!(told(there).await?, first, "{definition}\n{statement}");
        assert_eq!(created(there, "TABLE t").await?, statement, "{definition}");
        there.batch_execute("DROP TABLE t").await?;
    }
    Ok(())
}
