//! Every bound of the protocol, each with its reason. A peer that crosses one is refused before anything
//! is allocated for it.

/// Version spoken in `hello`. Another version is refused with both numbers named.
pub const VERSION: u32 = 1;

/// Longest component of an entry path, in bytes: `NAME_MAX` of every Linux file system.
pub const COMPONENT_BYTES: usize = 255;

/// Longest entry path, in bytes: `PATH_MAX` of Linux, so that any stored path can also be named by a caller.
pub const PATH_BYTES: usize = 4_096;

/// Longest symlink target, in bytes: `PATH_MAX`, the longest that symlink(2) takes.
pub const LINK_TARGET_BYTES: usize = 4_096;

/// Most bytes of the names and values of one entry's extended attributes. ext4 keeps them in one block of
/// 4 KiB beside the inode; what has more is listed without them, and named.
pub const ATTRIBUTE_BYTES: usize = 16 * 1024;

/// Most extended attributes of one entry.
pub const ATTRIBUTES: usize = 256;

/// Longest name of a share, in bytes: long enough for any, short enough for a line.
pub const SHARE_NAME_BYTES: usize = 64;

/// Longest message of an introduction, in bytes: the longest ticket (8 KiB of text) and the longest card (8.2 KiB)
/// fit, sealed.
pub const INTRODUCTION_BYTES: usize = 16 * 1024;

/// Longest name that a peer may give itself on a card, in bytes: as long as a name in an address book may be.
pub const CARD_NAME_BYTES: usize = 64;

/// Most addresses on a card: as many as one dial tries.
pub const CARD_ADDRESSES: usize = 32;

/// Longest address on a card, in bytes: as in a ticket.
pub const CARD_ADDRESS_BYTES: usize = 255;

/// Seconds that an introduction may take from its first byte on: seven short messages, and no person is asked.
pub const INTRODUCTION_TIMEOUT_S: u64 = 20;

/// Longest name of a congestion controller, in bytes: `TCP_CA_NAME_MAX` of Linux.
pub const CONTROLLER_NAME_BYTES: usize = 16;

/// Most lines of rules of a selection: more than the longest `.gitignore` files in use have. With their tags
/// and lengths (16 KiB) they fit one message.
pub const RULES: usize = 4_096;

/// Most bytes of all lines of rules of a selection.
pub const RULES_BYTES: usize = 64 * 1024;

/// Longest control message, in bytes. A batch is cut at [`BATCH_BYTES`]; the rest is headroom for what comes
/// last: one entry with the longest path and link target (8 KiB) and all its attributes (19 KiB), or two
/// lists of [`PARTS_RUNS`] runs (48 KiB).
pub const MESSAGE_BYTES: usize = 128 * 1024;

/// A batch of the manifest, of wants or of settled entries is sent once its encoding may reach this many
/// bytes: large enough that framing costs nothing, small enough that the first file is on its way within
/// milliseconds.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Most entries in one manifest batch.
pub const BATCH_ENTRIES: usize = 1_024;

/// Most entries announced and not yet settled. Both sides keep about 150 bytes for each, so this bounds a
/// session's memory at some 10 MB; at 141 ms it still allows 460,000 entries a second.
pub const WINDOW_ENTRIES: u64 = 65_536;

/// No batch is announced while paths and link targets of open entries take this many bytes: 256 for each
/// entry of a full window. Without it, 65,536 of the longest paths would take 268 MB, and cost the peer
/// that names them next to nothing, since a path names only what differs from the one before it.
pub const WINDOW_BYTES: u64 = 16 * 1024 * 1024;

/// A leaf of a catalogue ends with this many entries at the latest, twice the average: one changed file then
/// costs at most 3 KB of entries, with names of ten bytes. A lower bound would cut more leaves where no path
/// ends them, and a new file then changes those behind it too.
pub const LEAF_ENTRIES: usize = 32;

/// A leaf ends with the entry that brings its encoding to this many bytes, whatever its entries carry.
pub const LEAF_BYTES: usize = 64 * 1024;

/// Most children of a node of a catalogue, twice the average: to name them all takes 2 KiB. A level of so
/// many nodes has the root above it.
pub const NODE_CHILDREN: usize = 128;

/// Highest level of a root: above level 9 nodes have [`NODE_CHILDREN`] children, whatever the names are, so
/// that level 16 takes a tree of more than 2^49 leaves.
pub const LEVELS: u32 = 16;

/// Most nodes of a level that may differ from what the receiver has. It keeps 24 bytes for each, so this
/// bounds what a sender can make it remember at 25 MB; without a match it is a tree of 700,000,000 entries.
pub const NARROWING_NODES: usize = 1024 * 1024;

/// Most problems named in one list of a message.
pub const BATCH_PROBLEMS: usize = 256;

/// Most runs in one list of ranges of a want; a file that needs more is named again. In the worst case
/// (every other range is missing) one list stands for 2 GiB of the file.
pub const PARTS_RUNS: usize = 1_024;

/// How often a receiver may want each span of an open file, on average over the file: to compare it, to get
/// it, and again when what arrived was damaged. Every want is a job that the sender must remember (some 100
/// bytes), so this bounds them at some 26 MB for a full window of small files.
pub const WANTS_PER_SPAN: u64 = 4;

/// Longest explanation in a message, in bytes. It is shown to a person, on one line.
pub const DETAIL_BYTES: usize = 1_024;

/// Largest block of content in a segment, in bytes: bounds what is buffered for one read or write.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Length of a range: a file above [`WHOLE_BYTES`] crosses as ranges of this length, each hashed alone. It
/// is a power of two of BLAKE3's 1,024-byte leaves, so that a range is a subtree of the file's hash.
pub const RANGE_BYTES: u64 = 1024 * 1024;

/// A file up to this length crosses as one segment; a longer one as ranges on any data stream, and what has
/// arrived of it is kept when the session is cut.
pub const WHOLE_BYTES: u64 = 8 * 1024 * 1024;

/// A group of chunks ends at none before this many, so that a list of groups is always much shorter than one
/// of chunks, also where one chunk is repeated.
pub const GROUP_CHUNKS_LEAST: usize = 8;

/// Most chunks in a group: 10 KiB to list the chunks of one that differs. One chunk in 64 ends a group, so few
/// reach it.
pub const GROUP_CHUNKS: usize = 512;

/// A file of at most this many chunks is described by them at once, in 5 KiB; one of more by its groups, and
/// that costs a flight more.
pub const RECIPE_CHUNKS: usize = 256;

/// Most groups in one recipe: those of a file of 2^20 chunks in the worst case, some 3 MB.
pub const RECIPE_GROUPS: usize = 131_072;

/// How often a receiver may want each byte of an open file in lists and pieces, on average over the file: once
/// in each, and again when something was damaged.
pub const PIECES_PER_BYTE: u64 = 3;

/// Largest window of a compressed data stream, as a power of two: 1 MiB, which its reader keeps.
pub const FRAME_WINDOW_BITS: u32 = 20;

/// Most connections of one session: where measurements of parallel connections stop gaining, and half of what a
/// node allows one peer, so that a session that is replaced has room.
pub const CONNECTIONS: u8 = 16;

/// Most data streams of one session on one connection.
pub const DATA_STREAMS: u32 = 16;

/// Most file streams of a session, on all its connections, in the `files` layout: 256 is where yamux was fastest, and the number
/// of streams it lets stand unanswered.
pub const FILE_STREAMS: usize = 256;

/// Seconds a peer may take over its hello. Nothing is known of it until then, so it gets little time.
pub const HELLO_TIMEOUT_S: u64 = 8;

/// Seconds a person may take to accept an offer.
pub const CONSENT_TIMEOUT_S: u64 = 600;

/// Seconds between signs of life on the control stream when there is nothing else to say: so few that a side which
/// looks for another way soon can tell that this one is dead.
pub const KEEP_ALIVE_S: u64 = 1;

/// Seconds of silence on the control stream after which the session is lost, whatever else is known: longer than any
/// path that comes back by itself is away.
pub const SILENCE_TIMEOUT_S: u64 = 30;

/// Seconds to wait for the sender's answer to `done`; everything is stored by then.
pub const FAREWELL_TIMEOUT_S: u64 = 5;
