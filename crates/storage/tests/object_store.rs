//! Volumes as objects (feature `object-store`).
#![cfg(feature = "object-store")]

use futures::StreamExt as _;
use futures::executor::block_on;
use kintsugidb_fabric::Address;
use kintsugidb_storage::object_store::{Recording, TargetStore};
use kintsugidb_storage::{Remote, RemoteOptions, Target, TargetOptions, pattern};
use object_store::path::Path;
use object_store::{Error, GetOptions, GetRange, ObjectMeta, ObjectStore as _};

#[test]
fn a_volume_is_an_object_whose_ranges_can_be_read_and_recorded() {
    let dir =
        std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let bytes = (3 << 20) + 17;
    pattern::make_file(&dir.join("f"), 3, bytes).unwrap();
    let socket = std::env::temp_dir().join(format!("kios-{}.sock", std::process::id()));
    let target = Target::start(TargetOptions {
        volumes: ["table.parquet", "db/a", "db/b", "db/old/a", "no//path"]
            .map(|name| format!("{name}={}", dir.join("f").display()).parse().unwrap())
            .to_vec(),
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
        // What is no path of an object store is not listed.
        let names =
            |objects: &[ObjectMeta]| objects.iter().map(|o| o.location.to_string()).collect::<Vec<_>>();
        let list = |prefix: Option<&str>| {
            let prefix = prefix.map(Path::from);
            store.list(prefix.as_ref()).map(|object| object.unwrap()).collect::<Vec<_>>()
        };
        let all = list(None).await;
        assert!(all.iter().all(|object| object.size == bytes));
        assert_eq!(names(&all), ["db/a", "db/b", "db/old/a", "table.parquet"]);
        assert_eq!(names(&list(Some("db")).await), ["db/a", "db/b", "db/old/a"]);
        assert_eq!(names(&list(Some("d")).await), [""; 0]);
        let top = store.list_with_delimiter(None).await.unwrap();
        assert_eq!(
            (names(&top.objects), top.common_prefixes),
            (vec!["table.parquet".into()], vec![Path::from("db")])
        );
        let below = store.list_with_delimiter(Some(&Path::from("db"))).await.unwrap();
        assert_eq!(
            (names(&below.objects), below.common_prefixes),
            (vec!["db/a".into(), "db/b".into()], vec![Path::from("db/old")])
        );
        assert!(matches!(store.put(&path, "x".into()).await, Err(Error::NotImplemented)));
    });
    let trace = store.trace();
    assert_eq!(trace.volumes, ["table.parquet"]);
    let read: u64 = trace.accesses.iter().map(|a| u64::from(a.bytes)).sum();
    assert_eq!(read, bytes + 8 + 4 + 1_499_900 + 1);
    let _ = std::fs::remove_dir_all(&dir);
}
