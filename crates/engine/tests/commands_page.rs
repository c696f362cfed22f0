//! `docs/commands.md` is what the table of commands says.
use std::{env, fs, path::Path};

#[test]
fn the_page_of_commands_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    let text = kintsugidb_engine::commands_markdown();
    if env::var_os("KINTSUGI_BLESS").is_some() {
        fs::write(&path, &text).expect("the page can be written");
    }
    let page = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        page == text,
        "docs/commands.md is not what the table says: KINTSUGI_BLESS=1 cargo test -p kintsugidb-engine --test commands_page"
    );
}
