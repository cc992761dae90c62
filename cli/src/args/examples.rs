//! Examples at the end of each `--help` and manual page. A test reads each of them as a command line.

macro_rules! examples {
    ($($name:ident: $($line:literal)+;)+) => {
        $(pub(super) const $name: &str = concat!("Examples:", $("\n  ", $line),+);)+

        #[cfg(test)]
        const ALL: &[&str] = &[$($name),+];
    };
}

examples! {
    RUN:
        "kvsim run powercut                              a scenario that ships, by its name"
        "kvsim run scenarios/*.toml --junit results.xml  files, for a CI server"
        "kvsim run swarm --for 1h                        further seeds until the time is over"
        "kvsim run powercut --guest engine.wasm          an engine of your own"
        "kvsim run powercut --seed 7 --set faults.torn=1.0";
    REPLAY:
        "kvsim replay failures/powercut-7-prefix.toml"
        "kvsim replay failures                           all cases of a folder, and a table"
        "kvsim replay failures/powercut-7-prefix.toml --minimise --report failure.html"
        "kvsim replay failures/powercut-7-prefix.toml --guest engine.wasm"
        "kvsim replay failures/files_explore-small-1-prefix.toml --write-files crashed";
    TRACE:
        "kvsim trace powercut --seed 3 --limit 100"
        "kvsim trace failures/powercut-7-prefix.toml --from 12.5ms --to 20ms";
    EXPLORE:
        "kvsim explore explore_small"
        "kvsim explore explore_small --report explored.html"
        "kvsim explore explore_deep --for 10m --minimise"
        "kvsim explore explore_small --shard 0/4 --json  a part, for kvsim merge";
    BOARD:
        "kvsim board                                     all engines that engines/build has built"
        "kvsim board --engines engines/out/lmdb.wasm --profiles posix,xfs --out lmdb"
        "kvsim board --engines engine.wasm --set explore.states_per_point=100"
        "kvsim board --out engines/board --rewrite       its pages again, from its cells";
    MERGE:
        "kvsim merge part0.json part1.json part2.json part3.json";
    MUTANTS:
        "kvsim mutants --list"
        "kvsim mutants                                   all of them"
        "kvsim mutants --shipped --json";
    SYNCS:
        "kvsim syncs files_explore --guest engine.wasm"
        "kvsim syncs files_explore --guest engine.wasm --set files.profile=ext4_ordered --json"
        "kvsim syncs files_explore --guest engine.wasm --each-call --place 1f";
    BENCH:
        "kvsim bench                                     a prediction, on the simulated device"
        "kvsim bench --real-disk --dir /var/tmp          the same workload on a real disk"
        "kvsim bench --real-disk ycsb_a --engines all --report bench.html"
        "kvsim bench read --profile hard_disk            a profile that ships, or a file"
        "kvsim bench --real-disk --csv bench.csv"
        "kvsim bench --real-disk --openings --set workload.keys=10000000 --engines all";
    CALIBRATE:
        "kvsim calibrate /var/tmp --output my_disk.toml"
        "kvsim calibrate /dev/nvme0n1                    only reads unless --write is given";
    CRASH_DISK:
        "kvsim crash-disk --dir /var/tmp"
        "kvsim crash-disk --states 10000 --clients 16 --json";
    NEW_GUEST:
        "kvsim new-guest --lang rust my-engine           a log engine that builds, passes, and has three mistakes to switch on"
        "kvsim new-guest --lang c my-engine"
        "kvsim new-guest --lang go --files my-engine     an engine that uses files";
    CHECK_GUEST:
        "kvsim check-guest engine.wasm"
        "kvsim check-guest engine.wasm --quiet           only the rules that do not hold"
        "kvsim check-guest engine.wasm --option segment_bytes=65536 --json";
    SUITE:
        "kvsim suite --guest engine.wasm"
        "kvsim suite --guest engine.wasm --for 30m --json";
    EXPLAIN:
        "kvsim explain powercut"
        "kvsim explain swarm --seed 7 > seed7.toml       what seed 7 runs, as a scenario of its own";
    SCENARIOS:
        "kvsim scenarios"
        "kvsim scenarios --json";
    COMPLETIONS:
        "kvsim completions bash >> ~/.bashrc"
        "kvsim completions fish > ~/.config/fish/completions/kvsim.fish";
    MAN:
        "kvsim man > kvsim.1"
        "kvsim man /usr/local/share/man/man1";
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, Parser as _};

    use super::super::Cli;
    use super::*;

    /// Goal: what is shown as an example works. Method: each line, up to its remark or redirection, is a command line.
    #[test]
    fn examples_are_command_lines() {
        for line in ALL.iter().flat_map(|text| text.lines().skip(1)) {
            let command = line.trim().split("  ").next().expect("a command");
            let words = command.split_whitespace();
            let words = words.take_while(|word| !word.starts_with('>'));
            Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    /// Goal: no command goes without examples, and no long list of options without groups. Method: the help of each.
    #[test]
    fn every_help_has_examples() {
        let mut cli = Cli::command();
        cli.build();
        for command in cli
            .get_subcommands_mut()
            .filter(|it| it.get_name() != "help" && !it.is_hide_set())
        {
            let name = command.get_name().to_owned();
            let help = command.render_help().to_string();
            assert!(
                help.contains(&format!("Examples:\n  kvsim {name}")),
                "{help}"
            );
            let options = command.get_opts().count();
            let grouped = command
                .get_opts()
                .filter(|it| it.get_help_heading().is_some());
            assert!(options <= 3 || grouped.count() + 2 >= options, "{help}");
        }
    }
}
