//! A C program, compiled against the header and the library, does what the header says. Left out, with a line that says so, where there
//! is no C compiler.
use kintsugidb_server::{Config, Listeners, Server};
use std::{path::PathBuf, process::Command};

fn library_directory() -> PathBuf {
    // beside the test: target/PROFILE/deps
    let test = std::env::current_exe().expect("a test has a path");
    test.parent().expect("a directory").to_owned()
}

fn serve(address: &str) -> Server {
    let mut config = Config { threads: 2, shards: 4, fabric: address.into(), port: 0, ..Config::default() };
    config.set("isolation", "fast").unwrap();
    let mut listeners = Listeners::tcp("127.0.0.1:0").unwrap();
    listeners.bind_fabrics(address).unwrap();
    Server::start(config, listeners).unwrap()
}

#[test]
fn a_c_program_can_use_the_client() {
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("left out: there is no C compiler (cc)");
        return;
    }
    let directory = std::env::temp_dir().join(format!("kintsugi-c-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let program = directory.join("use");
    let libraries = library_directory();
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-o"])
        .arg(&program)
        .arg(here.join("tests/use.c"))
        .arg("-I")
        .arg(here.join("include"))
        .arg("-L")
        .arg(&libraries)
        .args(["-lkintsugi_client", &format!("-Wl,-rpath,{}", libraries.display())])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));

    let address = format!("shm:{}", directory.join("k.shm").display());
    let server = serve(&address);
    let ran = Command::new(&program).arg(&address).output().unwrap();
    let said = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{said:?}");
    server.stop();
    assert!(server.join(), "a thread of the server panicked");
    std::fs::remove_dir_all(&directory).unwrap();
}
