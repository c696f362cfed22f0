//! The machine's card: what every table of figures has to say about where it was measured.

/// One line: processor, cores, memory, kernel.
pub fn machine() -> String {
    let field = |file: &str, name: &str| {
        std::fs::read_to_string(file).ok().and_then(|text| {
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        })
    };
    let cpu = field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown processor".into());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|m| m.split_whitespace().next()?.parse::<u64>().ok())
        .map_or_else(String::new, |kb| format!(", {} GiB", kb >> 20));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("machine: {cpu}, {cores} cores{memory}, Linux {}", kernel.trim())
}
