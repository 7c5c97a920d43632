//! `gaggle peek`: looks at ready messages without receiving them.

use gaggle_client::QueueName;
use serde_json::Value;

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::output;

/// Look at the first ready messages of a queue, without receiving them.
///
/// Nothing is hidden from anybody by this. It is a sample: of what is ready, not all need show.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The queue
    #[arg(value_parser = QueueName::parse)]
    queue: QueueName,
    /// The most messages
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=gaggle_wire::RECEIVE_MAX as i64))]
    max: u32,
    /// Print one JSON object per message
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn run(args: Args) -> Result<Exit, Failure> {
    let what = format!("cannot look into {}", args.queue);
    let client = args.connect.client().await?;
    let queue = client
        .queue(args.queue.as_str())
        .map_err(|error| Failure::usage(&what, error, "choose another name"))?;
    let peeked = queue.peek(args.max as usize).await;
    client.close().await;
    for received in peeked.map_err(|error| Failure::of(&what, &error))? {
        if args.json {
            output::object(&Value::Object(output::message(&received)))?;
        } else {
            output::bytes(&received.message.body)?;
        }
    }
    Ok(Exit::Done)
}
