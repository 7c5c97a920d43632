//! What the command line takes, and what it refuses with exit code 2 before anything happens.

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_definition_is_sound() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

#[test]
fn what_the_documentation_says_is_taken() {
    let lines = [
        "gaggle dev",
        "gaggle dev --nodes 1 --dir /x --port 7500 --cluster mine",
        "gaggle demo --file /x --nodes 3 --json",
        "gaggle serve --config /x --standalone --listen 127.0.0.1:7400 --zone a",
        "gaggle serve --advertise 10.0.0.1:7400 --advertise-client 10.0.0.1:7400 --seeds a:1,b:2",
        "gaggle restore --config /x",
        "gaggle restore --data /x --certificate a --key b --node-ca c --client-ca d",
        "gaggle cert init --name prod",
        "gaggle cert node 7 --dir certs",
        "gaggle cert client billing --json",
        "gaggle queue create orders --partitions 4 --visibility 30s --replicas 3 --confirms 2",
        "gaggle queue create orders --at-least 1 --message-size-max 64KiB",
        "gaggle queue create orders --retention 4d --delay 1s",
        "gaggle queue set orders --visibility 1m --dry-run --json",
        "gaggle queue list o --json",
        "gaggle queue info orders",
        "gaggle queue delete orders --yes",
        "gaggle queue purge orders --yes",
        "gaggle send orders hello --attribute a=b --attribute c=d --key k --delay 5s",
        "gaggle send orders --file /x --json --connect gaggle://n1?ca=a&cert=b&key=c",
        "gaggle send orders --node 127.0.0.1:7401 --cluster dev",
        "gaggle receive orders --max 10 --wait 20s --visibility 1m --delete --json",
        "gaggle receive orders --follow --delete",
        "gaggle peek orders --max 5",
        "gaggle status --wait --timeout 10s --members 3 --json",
        "gaggle bench --producers 4 --consumers 4 --in-flight 8 --size 100 --messages 10 --json",
        "gaggle bench --rate 1000 --queues 2 --backlog 5 --kill",
        "gaggle node remove 3 --yes --accept-loss --timeout 5m --json",
        "gaggle node keep 3",
        "gaggle completions bash",
    ];
    for line in lines {
        if let Err(error) = parse(line) {
            panic!("{line}: {error}");
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_happens() {
    let lines = [
        "gaggle",
        "gaggle fly",
        "gaggle dev --nodes 0",
        "gaggle dev --port 0",
        "gaggle dev --port 70000",
        "gaggle demo --nodes 2",
        "gaggle serve --listen here",
        "gaggle cert node one",
        "gaggle cert init",
        "gaggle cert client a/b",
        "gaggle queue create bad/name",
        "gaggle queue create orders --visibility soon",
        "gaggle queue create orders --replicas 300",
        "gaggle queue create orders --message-size-max 64KB",
        "gaggle send",
        "gaggle send orders body --file /x",
        "gaggle send orders body --attribute nothing",
        "gaggle send orders body --delay -1s",
        "gaggle send orders --connect gaggle://n1 --cluster dev",
        "gaggle receive orders --max 0",
        "gaggle receive orders --follow --wait 1s",
        "gaggle peek orders --max 1001",
        "gaggle delete",
        "gaggle delete nonsense",
        "gaggle extend nonsense --visibility 1m",
        "gaggle status --members 3",
        "gaggle bench --size 1B",
        "gaggle bench --rate 0",
        "gaggle bench --producers 0",
        "gaggle completions parrot",
    ];
    for line in lines {
        match parse(line) {
            Ok(cli) => panic!("{line} was taken: {cli:?}"),
            // Help that was not asked for goes to stderr, and counts as a refusal as well.
            Err(error) => assert!(error.use_stderr(), "{line}: {error}"),
        }
    }
}

#[test]
fn help_and_version_are_no_errors() {
    for line in ["gaggle --help", "gaggle --version", "gaggle send --help", "gaggle queue -h"] {
        assert!(parse(line).is_err_and(|error| !error.use_stderr()), "{line}");
    }
}

#[test]
fn every_option_has_a_help_text() {
    use clap::CommandFactory;
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{} says nothing of itself", command.get_name());
        for argument in command.get_arguments().filter(|argument| !argument.is_hide_set()) {
            let name = argument.get_id();
            assert!(argument.get_help().is_some(), "{} {name}", command.get_name());
        }
        command.get_subcommands().for_each(check);
    }
    check(&Cli::command());
}
