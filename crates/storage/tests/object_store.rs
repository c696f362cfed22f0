//! Volumes as objects (feature `object-store`).
#![cfg(feature = "object-store")]

use futures::executor::block_on;
use kintsugidb_fabric::Address;
use kintsugidb_storage::object_store::{Recording, TargetStore};
use kintsugidb_storage::{Remote, RemoteOptions, Target, TargetOptions, pattern};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectStore as _};

#[test]
fn a_volume_is_an_object_whose_ranges_can_be_read_and_recorded() {
    let dir =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let bytes = (3 << 20) + 17;
    pattern::make_file(&dir.join("f"), 3, bytes).unwrap();
    let socket = std::env::temp_dir().join(format!("kios-{}.sock", std::process::id()));
    let target = Target::start(TargetOptions {
        volumes: vec![format!("table.parquet={}", dir.join("f").display()).parse().unwrap()],
        listen: vec![Address::Shm(socket)],
        ..TargetOptions::default()
    })
    .unwrap();
    let remote = Remote::connect(RemoteOptions::new(target.addresses()[0].clone())).unwrap();
    let store = Recording::new(TargetStore::new(remote));
    let path = Path::from("table.parquet");
    block_on(async {
        assert_eq!(store.head(&path).await.unwrap().size, bytes);
        let all = store.get(&path).await.unwrap().bytes().await.unwrap();
        assert_eq!((all.len() as u64, pattern::check(3, 0, &all)), (bytes, Ok(())));
        let tail = GetOptions { range: Some(GetRange::Suffix(8)), ..GetOptions::default() };
        let tail = store.get_opts(&path, tail).await.unwrap().bytes().await.unwrap();
        assert_eq!(tail, all.slice(all.len() - 8..));
        let parts = store.get_ranges(&path, &[5..9, 100..1_500_000, bytes - 1..bytes]).await.unwrap();
        assert_eq!((&parts[0], &parts[1]), (&all.slice(5..9), &all.slice(100..1_500_000)));
        assert_eq!(parts[2], all.slice(all.len() - 1..));
        assert!(matches!(store.head(&Path::from("none")).await, Err(Error::NotFound { .. })));
        assert!(store.get_range(&path, bytes + 5..bytes + 6).await.is_err());
    });
    let trace = store.trace();
    assert_eq!(trace.volumes, ["table.parquet"]);
    let read: u64 = trace.accesses.iter().map(|a| u64::from(a.bytes)).sum();
    assert_eq!(read, bytes + 8 + 4 + 1_499_900 + 1);
    let _ = std::fs::remove_dir_all(&dir);
}
