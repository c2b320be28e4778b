//! The gateway inside a program of one's own: a store, its catalog, a server on a free port, and a client in the same process.
//!
//! Run it: `cargo run -p keyspan-examples --example embedded`

use anyhow::{Result, ensure};
use keyspan_catalog::Catalog;
use keyspan_gateway::{
    auth::operator,
    instance::Instance,
    server::{Server, ServerOptions},
};
use keyspan_storage::engine::{Engine, EngineOptions};
use std::sync::Arc;
use tokio_postgres::NoTls;

#[tokio::main]
async fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    for visit in 1..=2_i64 {
        // The store: one folder, held by one process; every acknowledged write is on the disk.
        let store = Engine::open(EngineOptions::new(folder.path())).await?;
        // The catalog lives in the store: tenants, tables, roles.
        let catalog = Arc::new(Catalog::open(store).await?);
        operator::ensure(&catalog, "secret").await?;
        // What all connections share; COPY may write no files here.
        let instance = Arc::new(Instance::new(catalog));
        // On a free port of the loopback; the options say otherwise, and more.
        let server = Server::start(ServerOptions::new(instance)).await?;
        println!("listening on {}", server.address());

        let url = format!("postgresql://keyspan:secret@{}/keyspan", server.address());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await?;
        let connection = tokio::spawn(connection);
        if visit == 1 {
            let definitions = "CREATE TABLE visits (page text, number bigint, PRIMARY KEY (page, number));
                               CREATE DATABASE example_site";
            client.batch_execute(definitions).await?;
        }
        client.execute("INSERT INTO visits VALUES ('example_site', 'home', $1)", &[&visit]).await?;
        let visits: i64 = client.query_one("SELECT count(*) FROM visits WHERE page = 'home'", &[]).await?.get(0);
        println!("visits so far: {visits}");
        ensure!(visits == visit, "a restart lost a row");

        drop(client);
        connection.await??;
        // Waits for running statements, closes the store; the next round finds what this one wrote.
        server.shutdown().await?;
    }
    Ok(())
}
