//! `gaggle queue`: create, set, list, info, delete, purge.

use std::time::Duration;

use clap::Subcommand;
use gaggle_client::{ChangeMode, Client, QueueDescription, QueueName, Settings, SettingsChange};
use gaggle_wire::QueueStatus;
use serde_json::{Value, json};

use super::connect::ConnectArgs;
use super::failure::{Exit, Failure};
use super::prompt::ConfirmArgs;
use super::{output, values};

/// Create, change, list and delete queues.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create a queue; creating it again with equal settings succeeds
    Create {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        settings: SettingsArgs,
    },
    /// Change settings of a queue
    Set {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        settings: SettingsArgs,
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
    /// List the queues
    List {
        /// Only those whose names start so
        #[arg(default_value = "")]
        prefix: String,
        /// Print one JSON object per queue
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        connect: ConnectArgs,
    },
    /// Show the settings and figures of a queue
    Info {
        #[command(flatten)]
        target: Target,
    },
    /// Delete a queue with all its messages
    Delete {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Drop every message of a queue
    Purge {
        #[command(flatten)]
        target: Target,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
}

/// Which queue, and how to print.
#[derive(clap::Args, Debug)]
pub(crate) struct Target {
    /// The queue: 1 to 75 characters of A-Z a-z 0-9 . _ -
    #[arg(value_name = "NAME", value_parser = QueueName::parse)]
    name: QueueName,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connect: ConnectArgs,
}

/// Settings of a queue; those not named keep their value, or the default of the cluster.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Settings")]
pub(crate) struct SettingsArgs {
    /// Parts that are placed independently, fixed at creation (8, at most 256)
    #[arg(long, value_name = "N")]
    partitions: Option<u16>,
    /// How long a received message stays hidden (30s, at most 12h; below 100ms it is 100ms)
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    visibility: Option<Duration>,
    /// Nodes that should hold each message (3, at most 7)
    #[arg(long, value_name = "R")]
    replicas: Option<u8>,
    /// Nodes that must have a message on disk before it is confirmed (2)
    #[arg(long, value_name = "W")]
    confirms: Option<u8>,
    /// The fewest nodes with which a send is confirmed while W cannot be reached (W)
    #[arg(long, value_name = "N")]
    at_least: Option<u8>,
    /// The longest message (1MiB, at most 16MiB)
    #[arg(long, value_name = "SIZE", value_parser = values::small_size)]
    message_size_max: Option<u32>,
    /// Age at which a message may be discarded unread (4d, at most 14d)
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    retention: Option<Duration>,
    /// How long a new message cannot be received yet (0s)
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    delay: Option<Duration>,
}

impl SettingsArgs {
    fn change(&self) -> SettingsChange {
        SettingsChange {
            partitions: self.partitions,
            visibility_timeout_ms: self.visibility.map(values::milliseconds),
            replicas: self.replicas,
            confirms: self.confirms,
            at_least: self.at_least,
            message_size_max: self.message_size_max,
            retention_ms: self.retention.map(values::milliseconds),
            delay_ms: self.delay.map(values::milliseconds),
            ..SettingsChange::default()
        }
    }
}

pub(crate) async fn run(command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Create { target, settings } => create(&target, settings.change()).await,
        Command::Set { target, settings, dry_run } => {
            let mode = if dry_run { ChangeMode::DryRun } else { ChangeMode::Apply };
            set(&target, settings.change(), mode).await
        }
        Command::List { prefix, json, connect } => list(&prefix, json, &connect).await,
        Command::Info { target } => show(&target).await,
        Command::Delete { target, confirm } => {
            confirm.ask(&format!("delete the queue {} and all its messages", target.name))?;
            let client = target.connect.client().await?;
            let done = client.delete_queue(target.name.as_str()).await;
            client.close().await;
            done.map_err(|error| Failure::of(target.cannot("delete"), &error))?;
            target.done("deleted")
        }
        Command::Purge { target, confirm } => {
            confirm.ask(&format!("drop all messages of the queue {}", target.name))?;
            let client = target.connect.client().await?;
            let done = client.purge_queue(target.name.as_str()).await;
            client.close().await;
            done.map_err(|error| Failure::of(target.cannot("purge"), &error))?;
            target.done("purged")
        }
    }
}

impl Target {
    fn cannot(&self, verb: &str) -> String {
        format!("cannot {verb} the queue {}", self.name)
    }

    fn done(&self, verb: &str) -> Result<Exit, Failure> {
        if self.json {
            output::object(&json!({ "name": self.name.as_str(), "result": verb }))?;
        } else {
            output::line(format!("{verb} {}", self.name))?;
        }
        Ok(Exit::Done)
    }
}

async fn create(target: &Target, change: SettingsChange) -> Result<Exit, Failure> {
    let client = target.connect.client().await?;
    let created = client.create_queue(target.name.as_str(), change).await;
    client.close().await;
    let queue = created.map_err(|error| Failure::of(target.cannot("create"), &error))?;
    if target.json {
        output::object(&describe(&queue))?;
    } else {
        output::line(format!("created {}", queue.name))?;
    }
    Ok(Exit::Done)
}

async fn set(target: &Target, change: SettingsChange, mode: ChangeMode) -> Result<Exit, Failure> {
    if change == SettingsChange::default() {
        let remedy = "name a setting: --visibility 1m; `gaggle queue set --help` lists them";
        return Err(Failure::usage(target.cannot("change"), "no setting is named", remedy));
    }
    let client = target.connect.client().await?;
    let changed = client.set_queue(target.name.as_str(), change, mode).await;
    client.close().await;
    let changed = changed.map_err(|error| Failure::of(target.cannot("change"), &error))?;
    if target.json {
        output::object(&json!({
            "name": target.name.as_str(),
            "applied": mode == ChangeMode::Apply,
            "before": settings_object(&changed.before),
            "after": settings_object(&changed.after),
        }))?;
        return Ok(Exit::Done);
    }
    let before = settings_shown(&changed.before);
    let after = settings_shown(&changed.after);
    let differing: Vec<_> = before.iter().zip(&after).filter(|(old, new)| old != new).collect();
    if differing.is_empty() {
        output::line("nothing changes: these are the settings already")?;
    }
    for ((name, old), (_, new)) in differing {
        output::line(format!("{name}: {old} -> {new}"))?;
    }
    if mode == ChangeMode::DryRun {
        output::note("nothing was changed; without --dry-run it will be");
    }
    Ok(Exit::Done)
}

async fn list(prefix: &str, json: bool, connect: &ConnectArgs) -> Result<Exit, Failure> {
    let client = connect.client().await?;
    let listed = client.list_queues(prefix).await;
    client.close().await;
    let queues = listed.map_err(|error| Failure::of("cannot list the queues", &error))?;
    if json {
        queues.iter().try_for_each(|queue| output::object(&describe(queue)))?;
        return Ok(Exit::Done);
    }
    if queues.is_empty() {
        output::note("there are no queues; `gaggle queue create NAME` makes one");
        return Ok(Exit::Done);
    }
    let row = |queue: &QueueDescription| {
        let settings = &queue.settings;
        [
            queue.name.to_string(),
            settings.partitions.to_string(),
            settings.replicas.to_string(),
            settings.confirms.to_string(),
            settings.at_least.to_string(),
            values::show_milliseconds(settings.visibility_timeout_ms),
            values::show_milliseconds(settings.retention_ms),
        ]
    };
    let titles =
        ["name", "partitions", "replicas", "confirms", "at least", "visibility", "retention"];
    output::table(titles, queues.iter().map(row).collect())?;
    Ok(Exit::Done)
}

async fn show(target: &Target) -> Result<Exit, Failure> {
    let client = target.connect.client().await?;
    let described = describe_with_figures(&client, target).await;
    client.close().await;
    let (queue, figures) = described?;
    if target.json {
        let mut object = describe(&queue);
        if let Some(figures) = &figures {
            object["figures"] = super::status::queue_object(figures);
        }
        output::object(&object)?;
        return Ok(Exit::Done);
    }
    let mut rows = vec![["name".to_owned(), queue.name.to_string()]];
    rows.push(["id".to_owned(), queue.id.to_string()]);
    rows.extend(settings_shown(&queue.settings).map(|(name, value)| [name.to_owned(), value]));
    if let Some(figures) = figures {
        let total = figures.total;
        rows.push(["messages".to_owned(), total.messages.to_string()]);
        rows.push(["in flight".to_owned(), total.in_flight.to_string()]);
        rows.push(["oldest".to_owned(), values::show_age(total.oldest_age_ms)]);
        if let Some(below) = figures.skew.below(990) {
            let below = values::show_age(values::milliseconds(below));
            rows.push(["99 of 100 arrived within".to_owned(), below]);
        }
        rows.push(["age of figures".to_owned(), values::show_age(total.age_ms)]);
    }
    output::table(["what", "value"], rows)?;
    Ok(Exit::Done)
}

/// The figures come from the status, which may not have heard of a new queue yet.
async fn describe_with_figures(
    client: &Client,
    target: &Target,
) -> Result<(QueueDescription, Option<QueueStatus>), Failure> {
    let what = || target.cannot("describe");
    let described = client.describe_queue(target.name.as_str()).await;
    let queue = described.map_err(|error| Failure::of(what(), &error))?;
    let figures = client.queue_status(target.name.as_str()).await;
    let figures = figures.map_err(|error| Failure::of(what(), &error))?;
    let figures = figures.filter(|figures| figures.id == queue.id);
    Ok((queue, figures))
}

fn describe(queue: &QueueDescription) -> Value {
    json!({
        "name": queue.name.as_str(),
        "id": queue.id.to_string(),
        "settings": settings_object(&queue.settings),
    })
}

fn settings_object(settings: &Settings) -> Value {
    json!({
        "partitions": settings.partitions,
        "visibility_timeout_ms": settings.visibility_timeout_ms,
        "replicas": settings.replicas,
        "confirms": settings.confirms,
        "at_least": settings.at_least,
        "message_size_max": settings.message_size_max,
        "retention_ms": settings.retention_ms,
        "delay_ms": settings.delay_ms,
    })
}

fn settings_shown(settings: &Settings) -> [(&'static str, String); 8] {
    [
        ("partitions", settings.partitions.to_string()),
        ("visibility", values::show_milliseconds(settings.visibility_timeout_ms)),
        ("replicas", settings.replicas.to_string()),
        ("confirms", settings.confirms.to_string()),
        ("at-least", settings.at_least.to_string()),
        ("message-size-max", values::show_size(u64::from(settings.message_size_max))),
        ("retention", values::show_milliseconds(settings.retention_ms)),
        ("delay", values::show_milliseconds(settings.delay_ms)),
    ]
}
