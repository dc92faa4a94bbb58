use std::ffi::OsStr;

use tempfile::TempDir;

use super::*;

const NOW_S: u64 = 1_000;

/// A state folder and a folder with something to offer.
struct Place {
    state: TempDir,
    tree: TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { state: TempDir::new().unwrap(), tree: TempDir::new().unwrap() };
        fs::write(place.tree.path().join("a"), "a").unwrap();
        fs::write(place.tree.path().join("b"), "b").unwrap();
        place
    }

    fn request(&self, leaves: &[&str]) -> OfferRequest {
        let paths = leaves.iter().map(|leaf| self.tree.path().join(leaf)).collect();
        OfferRequest { paths, only_for: None, uses: None, lifetime: None, replace: false }
    }

    fn open(&self, request: &OfferRequest, now_s: u64) -> Opened {
        Offers::open(self.state.path()).unwrap().reopen_or_create(request, now_s).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state.path().join("offers")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

#[test]
fn send_run_again_keeps_secret_reservation_and_addresses() {
    let place = Place::new();
    let request = place.request(&["a", "b"]);
    let peer = PeerId::random();
    let mut first = place.open(&request, NOW_S).offer;
    let secret = first.offer().secret;
    first.admit(peer, &secret, NOW_S).unwrap();
    first.remember_addresses(vec!["/ip4/127.0.0.1/tcp/4001".parse().unwrap()]).unwrap();
    let before = first.offer().clone();
    drop(first);

    let again = place.open(&place.request(&["b", "a", "a"]), NOW_S + 10);

    assert!(again.reopened);
    assert_eq!(*again.offer.offer(), before);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_new_offer_is_for_one_use_and_a_day() {
    let place = Place::new();
    let opened = place.open(&place.request(&["a"]), NOW_S);
    assert!(!opened.reopened);
    let offer = opened.offer.offer();
    assert_eq!((offer.uses_left(), offer.expires_s()), (1, Some(NOW_S + 86_400)));
}

#[test]
fn other_paths_or_another_peer_are_another_offer() {
    let place = Place::new();
    let first = place.open(&place.request(&["a"]), NOW_S).offer.offer().secret;
    let to_peer = OfferRequest { only_for: Some(PeerId::random()), ..place.request(&["a"]) };
    for request in [place.request(&["b"]), place.request(&["a", "b"]), to_peer] {
        let opened = place.open(&request, NOW_S);
        assert!(!opened.reopened);
        assert_ne!(opened.offer.offer().secret, first);
    }
    assert_eq!(place.files().len(), 4);
}

#[test]
fn a_held_offer_is_left_alone_even_after_it_was_changed() {
    let place = Place::new();
    let request = place.request(&["a"]);
    let mut held = place.open(&request, NOW_S).offer;
    held.remember_addresses(vec!["/ip4/127.0.0.1/tcp/1".parse().unwrap()]).unwrap();
    let second = place.open(&OfferRequest { replace: true, ..request }, NOW_S + 1_000_000);
    assert!(!second.reopened);
    assert_ne!(second.offer.offer().secret, held.offer().secret);
    assert_eq!(place.files().len(), 2);
}

#[test]
fn explicit_uses_and_lifetime_replace_those_of_a_reopened_offer() {
    let place = Place::new();
    drop(place.open(&place.request(&["a"]), NOW_S));
    let renewal = OfferRequest {
        uses: NonZeroU32::new(5),
        lifetime: Some(Lifetime::Unlimited),
        ..place.request(&["a"])
    };
    let opened = place.open(&renewal, NOW_S);
    assert!(opened.reopened);
    assert_eq!((opened.offer.offer().uses_left(), opened.offer.offer().expires_s()), (5, None));
}

#[test]
fn an_expired_offer_is_removed_on_the_way_to_any_other() {
    let place = Place::new();
    let short = OfferRequest { lifetime: Some(Lifetime::Seconds(1)), ..place.request(&["a"]) };
    drop(place.open(&short, NOW_S));

    let opened = place.open(&place.request(&["b"]), NOW_S + 1);

    assert!(!opened.reopened);
    assert_eq!(place.files(), std::slice::from_ref(&opened.offer.path));
}

#[test]
fn the_last_use_takes_the_file_with_it() {
    let place = Place::new();
    let request = OfferRequest { uses: NonZeroU32::new(2), ..place.request(&["a"]) };
    let mut held = place.open(&request, NOW_S).offer;
    let secret = held.offer().secret;
    let peer = PeerId::random();
    for left in [1, 0] {
        held.admit(peer, &secret, NOW_S).unwrap();
        assert_eq!(held.spend(peer).unwrap(), left);
        assert_eq!(held.spend(peer).unwrap(), left);
        assert_eq!(place.files().len(), left as usize);
    }
    drop(held);
    assert!(!place.open(&request, NOW_S).reopened);
}

#[test]
fn a_replaced_offer_is_withdrawn() {
    let place = Place::new();
    let first = place.open(&place.request(&["a"]), NOW_S).offer.offer().secret;
    let opened = place.open(&OfferRequest { replace: true, ..place.request(&["a"]) }, NOW_S);
    assert!(!opened.reopened);
    assert_ne!(opened.offer.offer().secret, first);
    assert_eq!(place.files().len(), 1);
}

#[test]
fn a_damaged_offer_is_moved_aside_with_a_warning() {
    let place = Place::new();
    drop(place.open(&place.request(&["a"]), NOW_S));
    let file = place.files().remove(0);
    let whole = fs::read(&file).unwrap();
    let text = String::from_utf8(whole.clone()).unwrap();
    let no_use = text.replace("\"uses_left\": 1", "\"uses_left\": 0");
    let no_secret = text.replace("\"secret\": \"", "\"secret\": \"x");
    let wrong = [no_use, no_secret];
    let damages = wrong.iter().map(|text| text.as_bytes());
    for damage in damages.chain([&b""[..], &whole[..whole.len() / 2], b"\xff\xfe"]) {
        fs::write(&file, damage).unwrap();
        let opened = place.open(&place.request(&["a"]), NOW_S);
        assert!(!opened.reopened);
        assert_eq!(opened.warnings.len(), 1);
        assert_eq!(fs::read(&opened.warnings[0].moved_to).unwrap(), damage);
        opened.offer.withdraw().unwrap();
    }
}

#[test]
fn only_the_owner_may_read_offers() {
    let place = Place::new();
    let mut held = place.open(&place.request(&["a"]), NOW_S).offer;
    held.remember_addresses(vec!["/ip4/127.0.0.1/tcp/1".parse().unwrap()]).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&held.path), 0o600);
    assert_eq!(mode(held.path.parent().unwrap()), 0o700);
}

#[test]
fn a_refused_peer_leaves_the_file_as_it_was() {
    let place = Place::new();
    let mut held = place.open(&place.request(&["a"]), NOW_S).offer;
    let before = fs::read(&held.path).unwrap();
    let wrong = secret::random().unwrap();
    let error = held.admit(PeerId::random(), &wrong, NOW_S).unwrap_err();
    assert!(matches!(error, AdmitError::Refused(Refusal::Secret)), "{error}");
    assert_eq!(fs::read(&held.path).unwrap(), before);
}

#[test]
fn a_reservation_that_cannot_be_stored_does_not_count() {
    let place = Place::new();
    let mut held = place.open(&place.request(&["a"]), NOW_S).offer;
    let secret = held.offer().secret;
    fs::remove_dir_all(place.state.path().join("offers")).unwrap();
    let error = held.admit(PeerId::random(), &secret, NOW_S).unwrap_err();
    assert!(matches!(error, AdmitError::Store(OffersError::Io { action: "write", .. })), "{error}");
    assert_eq!(held.offer().reserved(), []);
}

#[test]
fn a_path_that_is_not_text_is_kept_exactly() {
    let place = Place::new();
    let odd = place.tree.path().join(OsStr::from_bytes(b"a\xff\n"));
    fs::write(&odd, "").unwrap();
    let request = OfferRequest { paths: vec![odd.clone()], ..place.request(&[]) };
    drop(place.open(&request, NOW_S));
    let again = place.open(&request, NOW_S);
    assert!(again.reopened);
    assert!(again.offer.offer().paths()[0].ends_with(odd.file_name().unwrap()));
}

#[test]
fn a_symlink_is_not_what_it_points_to() {
    let place = Place::new();
    std::os::unix::fs::symlink("a", place.tree.path().join("link")).unwrap();
    drop(place.open(&place.request(&["a"]), NOW_S));
    assert!(!place.open(&place.request(&["link"]), NOW_S).reopened);
    assert!(place.open(&place.request(&["./a"]), NOW_S).reopened);
}

#[test]
fn a_missing_path_is_named() {
    let place = Place::new();
    let offers = Offers::open(place.state.path()).unwrap();
    let error = offers.reopen_or_create(&place.request(&["gone\n"]), NOW_S).unwrap_err();
    assert!(error.to_string().starts_with("cannot find /"), "{error}");
    assert!(error.to_string().ends_with("/gone\\n"), "{error}");
    let error = offers.reopen_or_create(&place.request(&[]), NOW_S).unwrap_err();
    assert!(matches!(error, OffersError::NoPath));
}
