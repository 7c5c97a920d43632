//! A work queue: one process puts work in, any number of others do it.
//!
//! ```text
//! export GAGGLE_URL='gaggle://127.0.0.1:7400?ca=ca.pem&cert=client-a.pem&key=client-a.key'
//! cargo run --example work_queue -- put 100
//! cargo run --example work_queue -- work
//! ```
//!
//! Work is done at least once: a worker that dies in the middle leaves its message to another.

use std::env;
use std::error::Error;
use std::time::Duration;

use gaggle_client::{Client, SettingsChange};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let client = Client::connect(&env::var("GAGGLE_URL")?).await?;
    client.create_queue(QUEUE, SettingsChange::default()).await?;
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("put"), Some(count)) => put(&client, count.parse()?).await?,
        (Some("work"), None) => work(&client).await?,
        _ => return Err("say `put COUNT` or `work`".into()),
    }
    client.close().await;
    Ok(())
}

/// Puts so many pieces of work into the queue.
async fn put(client: &Client, count: u32) -> Result<(), Box<dyn Error>> {
    let pieces = (1..=count).map(|number| format!("piece {number}"));
    let results = client.queue(QUEUE)?.producer().send_all(pieces).await;
    let confirmed = results.iter().filter(|result| result.is_ok()).count();
    println!("{confirmed} of {count} are safe");
    results.into_iter().find_map(Result::err).map_or(Ok(()), |error| Err(error.into()))
}

/// Works until Ctrl-C, four pieces at a time; then what was begun is finished.
async fn work(client: &Client) -> Result<(), Box<dyn Error>> {
    let consumer = client.queue(QUEUE)?.consumer().credit(8).open();
    let working = consumer.run(4, |received| async move {
        let piece = String::from_utf8_lossy(&received.message.body).into_owned();
        // This takes longer than some visibility timeouts, and needs not care.
        tokio::time::sleep(Duration::from_millis(200)).await;
        println!("{piece}, delivery {}", received.delivery_count);
        // An error here would give the piece to another worker after a while.
        Ok::<(), String>(())
    });
    let stopped = async {
        tokio::signal::ctrl_c().await?;
        // Ends the stream, so that nothing more is begun.
        client.close().await;
        Ok::<(), Box<dyn Error>>(())
    };
    tokio::pin!(working);
    tokio::select! {
        result = &mut working => return Ok(result?),
        stopped = stopped => stopped?,
    }
    Ok(working.await?)
}

const QUEUE: &str = "work";
