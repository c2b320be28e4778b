//! Values larger than a page, and values that fill several pages.

use super::*;

#[test]
fn large_cells_and_large_overflow_come_back() {
    let large = |byte: u8, bytes: usize| (0..bytes).map(|at| byte ^ (at % 253) as u8).collect::<Vec<u8>>();
    let rows: ModelRows = [
        (b"k1".to_vec(), vec![(0, b"any".to_vec(), 9, large(1, VALUE_BYTES_MAX)), (0, b"i4".to_vec(), 9, vec![0; 4])]),
        // Neither in its column, nor the row's overflow in the Parquet file.
        (
            b"k2".to_vec(),
            vec![(0, b"any".to_vec(), 9, large(2, VALUE_BYTES_MAX + 1)), (0, b"i4".to_vec(), 9, vec![0; 4])],
        ),
        (
            b"k3".to_vec(),
            vec![
                (0, b"any".to_vec(), 9, vec![3]),
                (0, b"any".to_vec(), 8, large(3, 3 << 20)),
                (2, b"x".to_vec(), 9, vec![3]),
            ],
        ),
        (b"k4".to_vec(), vec![(2, b"x".to_vec(), 9, large(4, OVERFLOW_BYTES_MAX - 100))]),
        (b"k5".to_vec(), (0..2_000).map(|at: u32| (2, at.to_be_bytes().to_vec(), 9, vec![5; 1_000])).collect()),
    ]
    .into();
    let few: ModelRows = rows.iter().take(1).map(|(key, row)| (key.clone(), row.clone())).collect();
    let blobs = Memory::new();
    let segment = write(&blobs, &shape(&few, true), small(false), &rows);
    assert_eq!(whole(&segment), encode(&rows));
    segment.verify().unwrap();
    let side = blobs.open(&segment.meta().id.side_name()).unwrap();
    assert_eq!(side.size(), segment.meta().side_bytes);
    let group = &segment.load().unwrap().footer.groups[0];
    assert_eq!(group.side, 3);

    // Shredded columns are read without the side file, which is not even opened.
    blobs.delete(&segment.meta().id.side_name()).unwrap();
    let segment = Segment::open(blobs, 5, segment.meta().clone(), caches());
    let columns = SelectedColumns::These(vec![Bytes::from("i4")]);
    let request = RowsRequest {
        ranges: vec![0..5],
        dead: DeletionVector::default(),
        wanted: vec![SelectedFamily { family: FAMILIES[0].0, columns }],
        older: true,
        reversed: false,
        rows_soon: 100,
        decoded_bytes: DECODED_BYTES_TARGET,
    };
    let found = read(&segment, request);
    assert_eq!(found.iter().map(|(_, cells)| cells.len()).collect::<Vec<_>>(), [1, 1, 0, 0, 0]);
    match segment.row(1) {
        Err(crate::Error::Corrupt { path, .. }) => assert!(path.ends_with(segment.meta().id.side_name()), "{path:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_and_row_groups_of_the_usual_size() {
    let rows: ModelRows = (0u32..10_000)
        .map(|row| {
            let cells = vec![
                (0, b"f8".to_vec(), 9, f64::from(row).to_be_bytes().to_vec()),
                (0, b"text".to_vec(), 9, format!("value {}", row % 7).into_bytes()),
                (1, b"".to_vec(), 5 + i64::from(row % 2), vec![b'b'; (row % 100) as usize]),
                (1, b"".to_vec(), 3, vec![b'o']),
            ];
            (row.to_be_bytes().to_vec(), cells)
        })
        .collect();
    let blobs = Memory::new();
    let options = SegmentOptions { limits: Limits::default(), compression: Compression::Small, ..small(true) };
    let segment = write(&blobs, &shape(&rows, true), options, &rows);
    let loaded = segment.load().unwrap();
    let firsts: Vec<_> = loaded.pages.iter().map(|page| page.first).collect();
    let [0, second, third] = firsts[..] else { panic!("pages begin at {firsts:?}") };
    for page in [0..second, second..third] {
        assert!((4_096..4_096 + 1_024).contains(&page.len()), "pages begin at {firsts:?}");
    }
    assert_eq!(whole(&segment), encode(&rows));
    let batches = segment.encoded(vec![0..10_000], DeletionVector::default(), DECODED_BYTES_TARGET).unwrap();
    let batches: Vec<usize> = batches.map(|batch| batch.unwrap().len()).collect();
    assert!(batches.iter().all(|&rows| rows <= crate::store::BATCH_ROWS_MAX), "{batches:?}");
    segment.verify().unwrap();
}

#[test]
fn what_is_decoded_at_once_is_bounded_in_bytes() {
    // A dictionary makes a page of many large values small.
    let rows: ModelRows = (0u32..600)
        .map(|row| (row.to_be_bytes().to_vec(), vec![(0, b"any".to_vec(), 9, vec![(row % 2) as u8; 100_000])]))
        .collect();
    let blobs = Memory::new();
    let options = SegmentOptions { limits: Limits::default(), ..small(true) };
    let segment = write(&blobs, &shape(&rows, true), options, &rows);
    let loaded = segment.load().unwrap();
    let everything = SelectedFamily::everything(&loaded.footer);
    let projection = projection::Projection::new(&loaded, 0, &everything, true, true);
    let most = projection.rows_of_bytes(&loaded, 0, 8 << 20);
    assert!((40..=84).contains(&most), "{most} rows of 100 kB");
    assert_eq!(whole(&segment), encode(&rows));
}
