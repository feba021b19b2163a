//! Tests of state files: recovery of saved state, and detection of damage.

use std::os::unix::fs::symlink;

use super::*;
use suffrage_testbed::Folder;

type State = (u64, Vec<String>);

const ME: NodeId = NodeId(7);

fn state(number: u64) -> State {
    (number, vec!["x".repeat(number as usize % 50), "é".to_string()])
}

struct Site {
    temporary: Folder,
    folder: DataFolder,
}

impl Site {
    fn new() -> Site {
        let temporary = Folder::new().unwrap();
        let folder = DataFolder::create(&temporary.path().join("data"), ME).unwrap();
        Site { temporary, folder }
    }

    fn file(&self) -> StateFile<State> {
        self.folder.file("voter")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder.path).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

#[test]
fn the_last_saved_state_is_loaded() {
    let site = Site::new();
    assert_eq!(site.file().load().unwrap(), None);
    for number in 0..20 {
        site.file().save(&state(number)).unwrap();
        assert_eq!(site.file().load().unwrap(), Some(state(number)));
    }
    assert_eq!(site.names(), ["node", "voter.state"]);
}

#[test]
fn fresh_lost_and_recovered_starts_are_distinguished() {
    let site = Site::new();
    assert_eq!(site.file().start().unwrap(), Start::Fresh);
    assert_eq!(site.file().start().unwrap(), Start::Fresh, "it crashed before anybody knew of it");
    let mut file = site.file();
    Storage::save(&mut file, &state(1)).unwrap();
    assert_eq!(site.file().start().unwrap(), Start::Recovered(Some(state(1))), "it crashed right after");
    file.mark_started().unwrap();
    file.mark_started().unwrap();
    assert_eq!(site.file().start().unwrap(), Start::Recovered(Some(state(1))));
    fs::remove_file(file.path()).unwrap();
    assert_eq!(site.file().start().unwrap(), Start::Recovered(None));
}

#[test]
fn a_file_cut_short_anywhere_is_damaged() {
    let site = Site::new();
    site.file().save(&state(33)).unwrap();
    let content = fs::read(site.file().path()).unwrap();
    for length in 0..content.len() {
        fs::write(site.file().path(), &content[..length]).unwrap();
        let error = site.file().start().unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{length} bytes: {error}");
        assert!(error.to_string().contains("Restore it") && error.to_string().contains("voter.state"));
        assert_eq!(fs::read(site.file().path()).unwrap(), content[..length], "it is left as it is");
    }
    fs::write(site.file().path(), [&content[..], b"x"].concat()).unwrap();
    assert!(matches!(site.file().load(), Err(Error::Damaged { .. })));
}

#[test]
fn a_bit_flipped_anywhere_is_damaged() {
    let site = Site::new();
    site.file().save(&state(33)).unwrap();
    let content = fs::read(site.file().path()).unwrap();
    for bit in 0..content.len() * 8 {
        let mut flipped = content.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(site.file().decode(&flipped), Err(Error::Damaged { .. })), "bit {bit}");
    }
    assert_eq!(site.file().decode(&content).unwrap(), (1, state(33)));
}

#[test]
fn saves_are_counted_over_all_runs() {
    let site = Site::new();
    let mut file = site.file();
    assert_eq!((file.start().unwrap(), file.saves()), (Start::Fresh, Some(0)));
    for number in 1..=3 {
        Storage::save(&mut file, &state(number)).unwrap();
        assert_eq!(file.saves(), Some(number));
    }
    let mut file = site.file();
    assert_eq!((file.start().unwrap(), file.saves()), (Start::Recovered(Some(state(3))), Some(3)));
    Storage::save(&mut file, &state(4)).unwrap();
    assert_eq!(file.saves(), Some(4));
}

#[test]
fn a_state_that_is_set_aside_is_lost_and_kept_for_people() {
    let site = Site::new();
    let mut file = site.file();
    Storage::save(&mut file, &state(1)).unwrap();
    file.mark_started().unwrap();
    file.set_aside().unwrap();
    assert_eq!(site.file().start().unwrap(), Start::Recovered(None));
    assert_eq!(site.names(), ["node", "voter.outdated", "voter.started"]);
}

/// Intact files of another node, format or type.
#[test]
fn files_of_another_node_format_or_type_are_refused() {
    let site = Site::new();
    let file = site.file();
    let sum = |mut content: Vec<u8>| {
        content.truncate(content.len() - CHECKSUM);
        content.extend(xxh3_64(&content).to_be_bytes());
        content
    };
    let good = file.encode(&state(3));
    let change = |place: usize, byte: u8| {
        let mut content = good.clone();
        content[place] = byte;
        file.decode(&sum(content)).unwrap_err()
    };
    assert!(matches!(change(0, b'S'), Error::Damaged { .. }));
    assert!(matches!(change(11, 1), Error::Format { found: 1, known: FORMAT, .. }));
    assert!(matches!(change(19, 8), Error::AnotherNode { found: NodeId(8), expected: ME, .. }));
    assert!(matches!(change(35, 200), Error::Damaged { .. }));
    let other = site.folder.file::<(u8, u8, u8)>("voter").encode(&(1, 2, 3));
    assert!(matches!(file.decode(&other), Err(Error::Damaged { .. })));
}

/// `/dev/full` is always full; a link to it replaces the temporary file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_state_in_place() {
    let site = Site::new();
    let mut file = site.file();
    file.save(&state(1)).unwrap();
    symlink("/dev/full", site.folder.path.join("voter.state.new")).unwrap();
    let error = file.save(&state(2)).unwrap_err();
    match &error {
        Error::File { doing: "write", source, .. } => assert_eq!(source.kind(), ErrorKind::StorageFull),
        other => panic!("{other}"),
    }
    assert_eq!(site.file().load().unwrap(), Some(state(1)));
    assert_eq!(site.names(), ["node", "voter.state"], "nothing is left behind");
    file.save(&state(3)).unwrap();
    assert_eq!(site.file().load().unwrap(), Some(state(3)), "and there is room again");
}

#[test]
fn a_temporary_file_of_a_crash_is_ignored() {
    let site = Site::new();
    let mut file = site.file();
    file.save(&state(1)).unwrap();
    fs::write(site.folder.path.join("voter.state.new"), "torn").unwrap();
    assert_eq!(site.file().load().unwrap(), Some(state(1)));
    file.save(&state(2)).unwrap();
    assert_eq!(site.file().load().unwrap(), Some(state(2)));
    assert_eq!(site.names(), ["node", "voter.state"]);
}

#[test]
fn a_folder_belongs_to_one_node_and_one_process() {
    let Site { temporary, folder } = Site::new();
    let path = folder.path.clone();
    assert!(matches!(DataFolder::create(&path, ME), Err(Error::FolderInUse { .. })));
    assert!(matches!(DataFolder::open(&path, ME), Err(Error::FolderInUse { .. })));
    // A save of an aborted node may still be running.
    let file = folder.file::<State>("voter");
    drop(folder);
    assert!(matches!(DataFolder::open(&path, ME), Err(Error::FolderInUse { .. })));
    drop(file);
    assert!(matches!(DataFolder::create(&path, ME), Err(Error::NodeExists { .. })));
    match DataFolder::open(&path, NodeId(8)) {
        Err(Error::AnotherNode { found: ME, expected: NodeId(8), .. }) => {}
        other => panic!("{other:?}"),
    }
    drop(DataFolder::open(&path, ME).unwrap());
    for text in ["", "7", "seven\n"] {
        fs::write(path.join("node"), text).unwrap();
        assert!(matches!(DataFolder::open(&path, ME), Err(Error::Damaged { .. })), "{text:?}");
    }
    let elsewhere = temporary.path().join("elsewhere");
    assert!(matches!(DataFolder::open(&elsewhere, ME), Err(Error::NoNode { .. })));
    drop(DataFolder::open_or_create(&elsewhere, ME).unwrap());
    drop(DataFolder::open_or_create(&elsewhere, ME).unwrap());
}

#[test]
fn boots_increase_whatever_the_clock_shows() {
    let site = Site::new();
    let first = site.folder.boot().unwrap();
    // A boot of a clock that was a year ahead.
    let ahead = first.began() + 31_536_000_000_000;
    site.folder.file::<u64>("boot").save(&ahead).unwrap();
    assert!(site.folder.boot().unwrap().began() > ahead);
    fs::write(site.folder.path.join("boot.state"), "torn").unwrap();
    assert!(matches!(site.folder.boot(), Err(Error::Damaged { .. })));
}

#[test]
fn clones_of_a_memory_disk_share_the_state() {
    let disk = MemoryDisk::<State>::default();
    assert_eq!(disk.clone().start().unwrap(), Start::Fresh);
    disk.clone().mark_started().unwrap();
    assert_eq!(disk.clone().start().unwrap(), Start::Recovered(None));
    disk.clone().save(&state(4)).unwrap();
    assert_eq!(disk.clone().start().unwrap(), Start::Recovered(Some(state(4))));
}
