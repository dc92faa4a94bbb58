//! The report of runs that never took place, by the program as a person would start it.

#[path = "report/run.rs"]
mod run;

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// Reports of the synthetic run that were looked at by a person. Set KETCH_WRITE_GOLDEN=1 to write them anew, and look
/// at the difference.
const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/report/golden");

fn bench_factor(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-factor"))
        .arg("report")
        .args(arguments)
        .output()
        .expect("the binary under test runs")
}

/// Makes the report of the run in `folder` and returns its files.
fn report(folder: &Path, out: &Path) -> BTreeMap<String, String> {
    let output = bench_factor(&[folder, Path::new("--out"), out]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let files = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().path());
    files
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect()
}

/// The report of a study in so many rounds.
fn study(rounds: u32) -> (TempDir, BTreeMap<String, String>) {
    let folder = tempfile::tempdir().unwrap();
    run::write_study(folder.path(), rounds, 42);
    let files = report(folder.path(), &folder.path().join("report"));
    (folder, files)
}

/// The cells of the row of a CSV file that begins with `start`, by column.
fn csv_row(text: &str, start: &str) -> BTreeMap<String, String> {
    let mut lines = text.lines();
    let columns = lines.next().unwrap().split(',').map(str::to_owned);
    let row =
        lines.find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("no row {start} in\n{text}"));
    columns.zip(row.split(',').map(str::to_owned)).collect()
}

#[test]
fn the_report_is_the_same_byte_for_byte_and_as_it_was_looked_at() {
    let (folder, first) = study(5);
    let again = report(folder.path(), &folder.path().join("again"));
    assert_eq!(first, again);
    let golden = Path::new(GOLDEN);
    // The page says the same as the Markdown, and is looked at by a browser below.
    for (name, text) in first.iter().filter(|(name, _)| *name != "report.html") {
        if env::var_os("KETCH_WRITE_GOLDEN").is_some_and(|value| value == "1") {
            fs::write(golden.join(name), text).unwrap();
        }
        let expected = fs::read_to_string(golden.join(name)).unwrap_or_default();
        assert!(*text == expected, "{name} is not as tests/report/golden has it");
    }
}

#[test]
fn figures_are_those_that_a_person_calculates() {
    let folder = tempfile::tempdir().unwrap();
    // 100 MB: the first takes 10 s in every round, so 10 MB/s; the second 20, 25, 40, 50 and 12.5 s.
    let first = (1..=5).map(|round| run::plain("one", "bundle", round, run::complete(10.0)));
    let second = [20.0, 25.0, 40.0, 50.0, 12.5].into_iter().zip(1..);
    let second = second.map(|(ready_s, round)| run::plain("two", "files", round, run::complete(ready_s)));
    // The third is stopped in three of five rounds: at most 100 / 900 = 0.1111 MB/s, rounded up.
    let third = (1..=5).map(|round| {
        let outcome = if round < 4 { run::censored() } else { run::complete(50.0) };
        run::plain("three", "files", round, outcome)
    });
    let rows: Vec<_> = first.chain(second).chain(third).collect();
    let plan = "[[contrast]]\nname = 'packing'\nof = 'one'\nagainst = 'two'\n
        [[contrast]]\nname = 'far'\nof = 'three'\nagainst = 'one'\n";
    run::write(folder.path(), &rows, plan);
    let files = report(folder.path(), &folder.path().join("report"));

    let two = csv_row(&files["conditions.csv"], "two,");
    assert_eq!([&two["median_mb_per_s_low"], &two["interval_low"], &two["interval_high"]], ["4", "2", "8"]);
    assert_eq!(two["coverage"], "0.9375");
    let three = csv_row(&files["conditions.csv"], "three,");
    assert_eq!([&three["median_mb_per_s_low"], &three["median_mb_per_s_high"]], ["0", "0.112"]);
    assert_eq!([&three["complete"], &three["censored"]], ["2", "3"]);

    // Ratios of 2, 2.5, 4, 5 and 1.25: all five agree, which happens by chance in 2 / 2^5 of runs, and two were asked.
    let packing = csv_row(&files["comparisons.csv"], "contrast,packing,");
    assert_eq!(
        [&packing["median_low"], &packing["interval_low"], &packing["interval_high"]],
        ["2.5", "1.25", "5"]
    );
    assert_eq!([&packing["chance"], &packing["corrected"]], ["0.0625", "0.125"]);
    let far = csv_row(&files["comparisons.csv"], "contrast,far,");
    assert_eq!([&far["median_low"], &far["median_high"], &far["interval_high"]], ["0", "0.0112", "0.2"]);
    assert!(files["report.md"].contains("≤ 0.112"));
    assert!(files["report.md"].contains("too few rounds to show a difference"));
    assert!(files["report.md"].contains("93.75 % of such runs and none covers more; 95 % takes 6 rounds"));
}

#[test]
fn a_planted_difference_is_found_in_sixteen_rounds_and_the_same_is_the_same() {
    let (_folder, files) = study(16);
    let verdict = |name: &str| {
        let line = files["report.md"].lines().find(|line| line.starts_with(&format!("| {name} |"))).unwrap();
        line.split(" | ").nth(2).unwrap().to_owned()
    };
    assert_eq!(verdict("packing over TCP with BBR"), "faster");
    assert_eq!(verdict("QUIC for packed files with BBR"), "slower");
    assert_eq!(verdict("eight connections for packed files over TCP"), "faster, by less than 10 %");
    assert_eq!(verdict("A/A"), "no difference of 5 % or more");
}

#[test]
fn what_failed_or_was_stopped_is_shown_and_not_filled_in() {
    let (_folder, files) = study(5);
    let report = &files["report.md"];
    assert!(
        report.contains("| large-quic-bbr | 2 | 1 | failed | the target's file system could not be made |")
    );
    let quic = csv_row(&files["conditions.csv"], "small-files-quic-cubic,");
    assert_eq!([&quic["rounds"], &quic["complete"], &quic["aborted"]], ["5", "4", "1"]);
    let page = &files["report.html"];
    let plot = page.split("id=\"speeds-title\"").nth(1).unwrap().split("</svg>").next().unwrap();
    let marks = [plot.matches("<circle").count(), plot.matches("<polygon").count()];
    assert_eq!(
        marks,
        [82, 2],
        "17 conditions in 5 rounds: all but one aborted and two stopped, which are triangles"
    );
    assert!(page.contains("connection lost: &lt;timed out&gt;"), "text of rows is text");
    assert_eq!(
        page.matches("<script").count() + page.matches("http://").count() + page.matches("https://").count(),
        0
    );
}

#[test]
fn a_run_that_cannot_be_read_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |expected: &str| {
        let output = bench_factor(&[folder.path()]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(errors.starts_with("error: ") && errors.contains(expected), "{errors}");
    };
    refused("cannot read the rows ");
    let row = run::plain("one", "files", 1, run::complete(0.0));
    run::write(folder.path(), &[row], "");
    refused("line 1 of ");
    run::write(folder.path(), &[run::plain("one", "files", 1, run::complete(1.0))], "[[contrast]]\nname = 1");
    refused("makes no sense");
    assert!(!folder.path().join("report").exists());
}

/// Debian's browser, or another that is called like it.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH")?).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// Runs a headless browser of its own on `page` and returns what it printed and logged.
fn browse(browser: &Path, home: &Path, page: &Path, options: &[String]) -> (String, String) {
    let output = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ])
        .args(["--enable-logging=stderr", "--log-level=0", "--virtual-time-budget=2000", "--timeout=30000"])
        // It looks at one file and asks nobody anything.
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ])
        .arg("--host-resolver-rules=MAP * ~NOTFOUND")
        .arg(format!("--user-data-dir={}", home.display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .env("HOME", home)
        .output()
        .expect("the browser runs");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr))
}

#[test]
fn a_browser_shows_the_page_without_complaint() {
    let Some(browser) = browser() else {
        writeln!(io::stderr(), "skipped: no chromium to look at the page with").unwrap();
        return;
    };
    let (folder, _) = study(5);
    let (page, home) = (folder.path().join("report/report.html"), folder.path().join("home"));
    let (document, log) = browse(&browser, &home, &page, &["--dump-dom".into()]);
    assert!(document.contains("<h1>Small files over a long path: run-synthetic</h1>"), "{log}");
    let plots = ["speeds", "contrasts", "controls", "fractions", "efficiency", "exploratory-plot", "order"];
    assert!(plots.iter().all(|plot| document.contains(&format!("<title id=\"{plot}-title\">"))));
    assert!(!log.contains("CONSOLE"), "{log}");

    let picture = folder.path().join("page.png");
    let options = [format!("--screenshot={}", picture.display()), "--window-size=1200,4000".into()];
    let (_, log) = browse(&browser, &home, &page, &options);
    let bytes = fs::read(&picture).unwrap_or_else(|error| panic!("no picture: {error}\n{log}"));
    // A blank page of this size takes some 20 KB.
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 100_000, "{} bytes", bytes.len());
}
