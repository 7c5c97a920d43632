//! `gaggle delete`, `gaggle extend`, `gaggle release`: what is done with a receipt.

use std::fmt::Display;
use std::time::Duration;

use gaggle_client::{Deleted, Receipt};
use serde_json::{Map, Value, json};

use super::connect::ConnectArgs;
use super::failure::{Answered, Exit, Failure};
use super::{output, values};

/// Delete messages for good, by the receipts of `gaggle receive --json`.
#[derive(clap::Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    these: Receipts,
}

/// Hide messages for longer, from now.
#[derive(clap::Args, Debug)]
pub(crate) struct ExtendArgs {
    /// How long they stay hidden, from now
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = values::duration)]
    visibility: Duration,
    #[command(flatten)]
    these: Receipts,
}

/// Give messages back, so that others receive them.
#[derive(clap::Args, Debug)]
pub(crate) struct ReleaseArgs {
    /// After how long they may be received again
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = values::duration)]
    delay: Duration,
    #[command(flatten)]
    these: Receipts,
}

/// Which messages.
#[derive(clap::Args, Debug)]
struct Receipts {
    /// Receipts of the messages
    #[arg(value_name = "RECEIPT", required = true)]
    receipts: Vec<Receipt>,
    /// Print one JSON object per receipt
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

pub(crate) async fn delete(args: DeleteArgs) -> Result<Exit, Failure> {
    let client = args.these.connect.client().await?;
    let results = client.delete_all(args.these.receipts.clone()).await;
    client.close().await;
    args.these.report("delete", results, |deleted| match deleted {
        Deleted::ByReceipt => json!({ "result": "deleted" }),
        Deleted::ByOlderReceipt => json!({ "result": "deleted_by_older_receipt" }),
    })
}

pub(crate) async fn extend(args: ExtendArgs) -> Result<Exit, Failure> {
    let client = args.these.connect.client().await?;
    let results = client.extend_all(args.these.receipts.clone(), args.visibility).await;
    client.close().await;
    args.these.report(
        "extend",
        results,
        |lease| json!({ "result": "extended", "lease_ms": values::milliseconds(lease) }),
    )
}

pub(crate) async fn release(args: ReleaseArgs) -> Result<Exit, Failure> {
    let client = args.these.connect.client().await?;
    let results = client.release_all(args.these.receipts.clone(), args.delay).await;
    client.close().await;
    args.these.report("release", results, |()| json!({ "result": "released" }))
}

impl Receipts {
    /// Prints how each fared. One of several that fail is a part of a batch.
    fn report<T, E: Answered + Display>(
        &self,
        verb: &str,
        results: Vec<Result<T, E>>,
        done: impl Fn(T) -> Value,
    ) -> Result<Exit, Failure> {
        let count = results.len();
        let mut failures = Vec::new();
        for (receipt, result) in self.receipts.iter().zip(results) {
            let (fields, failed) = match result {
                Ok(result) => (done(result), None),
                Err(error) => {
                    let failure = Failure::of(format!("cannot {verb} the message"), &error);
                    (json!({ "result": "failed", "why": failure.why.clone() }), Some(failure))
                }
            };
            self.print(receipt, &fields)?;
            failures.extend(failed);
        }
        let failed = failures.len();
        match failures.into_iter().next() {
            None => Ok(Exit::Done),
            Some(failure) if failed == count => Err(failure),
            Some(mut failure) => {
                failure.what = format!("could not {verb} {failed} of {count} messages");
                failure.exit = Exit::Partial;
                Err(failure)
            }
        }
    }

    fn print(&self, receipt: &Receipt, fields: &Value) -> Result<(), Failure> {
        if !self.json {
            let text = fields["result"].as_str().unwrap_or_default().replace('_', " ");
            return output::line(text);
        }
        let mut object = Map::new();
        object.insert("receipt".to_owned(), json!(receipt.to_string()));
        object.extend(fields.as_object().cloned().unwrap_or_default());
        output::object(&Value::Object(object))
    }
}
