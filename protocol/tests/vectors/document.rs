//! The document shows what is kept, and its tables say what the code says.

use ketch_protocol::{
    introduction::Refusal,
    limits::{self, VERSION},
    problem::{Cause, Reason},
};

use crate::{BARE, CONNECTIONS, DATA, DELTA, FROM_RECEIVER, FROM_SENDER, INTRODUCTION, OTHERS};

const DOCUMENT: &str = include_str!("../../../docs/wire-format.md");

#[test]
fn the_document_shows_the_fixtures() {
    for fixture in [FROM_RECEIVER, FROM_SENDER, DATA, DELTA, OTHERS, CONNECTIONS, BARE, INTRODUCTION] {
        assert!(DOCUMENT.contains(fixture), "docs/wire-format.md lacks this:\n{fixture}");
    }
}

/// Rows of the table below a heading of the document, as trimmed cells without their quotes.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let (_, section) =
        DOCUMENT.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    table.skip(2).map(cells).collect()
}

#[test]
fn the_document_names_every_limit_with_its_value() {
    let values = [
        ("VERSION", u64::from(VERSION)),
        ("COMPONENT_BYTES", limits::COMPONENT_BYTES as u64),
        ("PATH_BYTES", limits::PATH_BYTES as u64),
        ("LINK_TARGET_BYTES", limits::LINK_TARGET_BYTES as u64),
        ("ATTRIBUTE_BYTES", limits::ATTRIBUTE_BYTES as u64),
        ("ATTRIBUTES", limits::ATTRIBUTES as u64),
        ("SHARE_NAME_BYTES", limits::SHARE_NAME_BYTES as u64),
        ("INTRODUCTION_BYTES", limits::INTRODUCTION_BYTES as u64),
        ("CARD_NAME_BYTES", limits::CARD_NAME_BYTES as u64),
        ("CARD_ADDRESSES", limits::CARD_ADDRESSES as u64),
        ("CARD_ADDRESS_BYTES", limits::CARD_ADDRESS_BYTES as u64),
        ("INTRODUCTION_TIMEOUT_S", limits::INTRODUCTION_TIMEOUT_S),
        ("CONTROLLER_NAME_BYTES", limits::CONTROLLER_NAME_BYTES as u64),
        ("RULES", limits::RULES as u64),
        ("RULES_BYTES", limits::RULES_BYTES as u64),
        ("MESSAGE_BYTES", limits::MESSAGE_BYTES as u64),
        ("BATCH_BYTES", limits::BATCH_BYTES as u64),
        ("BATCH_ENTRIES", limits::BATCH_ENTRIES as u64),
        ("WINDOW_ENTRIES", limits::WINDOW_ENTRIES),
        ("WINDOW_BYTES", limits::WINDOW_BYTES),
        ("LEAF_ENTRIES", limits::LEAF_ENTRIES as u64),
        ("LEAF_BYTES", limits::LEAF_BYTES as u64),
        ("NODE_CHILDREN", limits::NODE_CHILDREN as u64),
        ("LEVELS", u64::from(limits::LEVELS)),
        ("NARROWING_NODES", limits::NARROWING_NODES as u64),
        ("BATCH_PROBLEMS", limits::BATCH_PROBLEMS as u64),
        ("PARTS_RUNS", limits::PARTS_RUNS as u64),
        ("WANTS_PER_SPAN", limits::WANTS_PER_SPAN),
        ("DETAIL_BYTES", limits::DETAIL_BYTES as u64),
        ("BLOCK_BYTES", limits::BLOCK_BYTES as u64),
        ("RANGE_BYTES", limits::RANGE_BYTES),
        ("WHOLE_BYTES", limits::WHOLE_BYTES),
        ("GROUP_CHUNKS_LEAST", limits::GROUP_CHUNKS_LEAST as u64),
        ("GROUP_CHUNKS", limits::GROUP_CHUNKS as u64),
        ("RECIPE_CHUNKS", limits::RECIPE_CHUNKS as u64),
        ("RECIPE_GROUPS", limits::RECIPE_GROUPS as u64),
        ("PIECES_PER_BYTE", limits::PIECES_PER_BYTE),
        ("FRAME_WINDOW_BITS", u64::from(limits::FRAME_WINDOW_BITS)),
        ("CONNECTIONS", u64::from(limits::CONNECTIONS)),
        ("DATA_STREAMS", u64::from(limits::DATA_STREAMS)),
        ("FILE_STREAMS", limits::FILE_STREAMS as u64),
        ("HELLO_TIMEOUT_S", limits::HELLO_TIMEOUT_S),
        ("CONSENT_TIMEOUT_S", limits::CONSENT_TIMEOUT_S),
        ("KEEP_ALIVE_S", limits::KEEP_ALIVE_S),
        ("SILENCE_TIMEOUT_S", limits::SILENCE_TIMEOUT_S),
        ("FAREWELL_TIMEOUT_S", limits::FAREWELL_TIMEOUT_S),
    ];
    let documented: Vec<(String, u64)> = rows("## Limits")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].replace(',', "").parse().unwrap()))
        .collect();
    let expected: Vec<(String, u64)> = values.map(|(name, value)| (name.to_owned(), value)).into();
    assert_eq!(documented, expected);
    let source = include_str!("../../src/limits.rs");
    let defined: Vec<&str> =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next()).collect();
    assert_eq!(defined, values.map(|(name, _)| name), "limits.rs holds others");
}

#[test]
fn the_document_names_every_field_of_every_message() {
    let sources = [
        include_str!("../../src/message/wire.rs"),
        include_str!("../../src/message/wire/entry.rs"),
        include_str!("../../src/message/wire/sync.rs"),
        include_str!("../../src/introduction/wire.rs"),
    ];
    for definition in sources.iter().flat_map(|source| source.split("struct Wire").skip(1)) {
        let (name, body) = definition.split_once(" {").unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        let fields: Vec<[String; 3]> = lines
            .windows(2)
            .filter_map(|pair| {
                let attribute = pair[0].strip_prefix("#[prost(")?.strip_suffix(")]")?;
                let (kind, tag) = attribute.split_once(", tag = ")?;
                let field = pair[1].split(':').next()?;
                Some([tag.trim_matches('"'), field, &kind.replace(" = \"vec\"", "")].map(str::to_owned))
            })
            .collect();
        let documented: Vec<Vec<String>> =
            rows(&format!("### {name}")).into_iter().map(|row| row[..3].to_vec()).collect();
        assert_eq!(documented, fields, "{name}");
        assert!(!fields.is_empty(), "{name}");
    }
}

#[test]
fn the_document_names_every_code() {
    let codes = |heading| -> Vec<(String, String)> {
        rows(heading).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
    };
    let causes: Vec<_> =
        Cause::ALL.iter().map(|cause| (cause.code().to_string(), format!("{cause:?}"))).collect();
    let reasons: Vec<_> =
        Reason::ALL.iter().map(|reason| (reason.code().to_string(), format!("{reason:?}"))).collect();
    assert_eq!((codes("### Causes"), codes("### Reasons")), (causes, reasons));
    let refusals: Vec<_> =
        Refusal::ALL.iter().map(|refusal| (refusal.code().to_string(), format!("{refusal:?}"))).collect();
    assert_eq!(codes("### Refusals"), refusals);
}
