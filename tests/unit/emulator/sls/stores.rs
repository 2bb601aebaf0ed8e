use super::*;

fn written(bytes: usize) -> Written {
    Written { body: vec![0; bytes].into(), compression: String::new(), raw_size: bytes * 9, logs: 1, counted_bytes: 1 }
}

#[test]
fn a_shard_takes_its_rate_and_no_more() {
    let options = EmulatorOptions { shard_rate: Some(1000.0), ..EmulatorOptions::default() };
    let stores = Stores::new(&options);
    stores.make("store", 1).ok().unwrap();
    let store = stores.find("store").unwrap();
    let begin = Instant::now();
    let mut taken = 0;
    while begin.elapsed().as_millis() < 500 {
        taken += usize::from(stores.write(&store, 0, written(100)));
    }
    // A second's worth saved up, half a second's since, and one body on credit.
    assert!((14..=17).contains(&taken), "{taken}");
    assert!(store.taken()[0].quota_refusals > 0);
}

#[test]
fn what_is_kept_is_bounded_and_read_in_order() {
    let stores = Stores::new(&EmulatorOptions { keep: 1200, ..EmulatorOptions::default() });
    stores.make("store", 2).ok().unwrap();
    let store = stores.find("store").unwrap();
    for size in [400, 400, 400] {
        assert!(stores.write(&store, 0, written(size)));
    }
    assert_eq!(store.ends(0), (1, 3));
    let (read, next) = store.read(0, 0, 1000, 1);
    assert_eq!((read.len(), next), (1, 2));
    let (read, next) = store.read(0, next, 1000, usize::MAX);
    assert_eq!((read.len(), next), (1, 3));
    assert_eq!(store.read(0, next, 1000, usize::MAX).0.len(), 0);
    assert_eq!((store.shard_of(0), store.shard_of(u32::MAX)), (0, 1));
}

#[test]
fn split_shard_takes_no_logs_and_keeps_its_own() {
    let store = Store::new(2);
    assert!(store.split(0) && !store.split(0));
    assert_eq!((store.shards(), store.writable()), (4, vec![2, 3, 1]));
    assert_eq!((store.shard_of(0), store.shard_of(u32::MAX)), (2, 1));
    assert!((0..10).all(|_| store.next_shard() != 0));
    assert_eq!(store.ends(0), (0, 0));
}

#[test]
fn empty_bodies_are_bounded_too() {
    let stores = Stores::new(&EmulatorOptions { keep: 1000, ..EmulatorOptions::default() });
    stores.make("store", 1).ok().unwrap();
    let store = stores.find("store").unwrap();
    for _ in 0..1000 {
        assert!(stores.write(&store, 0, written(0)));
    }
    let (first, end) = store.ends(0);
    assert!(end == 1000 && (1..=10).contains(&(end - first)), "{first}");
}

#[test]
fn names_and_the_shards_of_all_stores_are_bounded() {
    let stores = Stores::new(&EmulatorOptions::default());
    for name in ["", "s", "Store", "-store", "store_", "a store", &"x".repeat(64)] {
        assert!(matches!(stores.make(name, 1), Err(NotMade::Name)), "{name}");
    }
    let most = MAX_SHARDS_OF_ALL / MAX_SHARDS as usize;
    for number in 0..most {
        assert!(stores.make(&format!("store-{number}"), MAX_SHARDS).is_ok());
    }
    assert!(matches!(stores.make("one-more", 1), Err(NotMade::Limit)));
    assert!(stores.remove("store-0") && stores.make("one-more", 1).is_ok());
}
