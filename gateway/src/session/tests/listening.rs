//! Names of channels.

use super::super::testing::{World, check, run};
use crate::wire::reply::Severity;
use expect_test::expect;

#[tokio::test]
async fn a_long_name_of_a_channel_is_cut_which_is_told() {
    let world = World::new().await;
    let mut session = world.tenant("alto");
    let (long, cut) = ("é".repeat(40), "é".repeat(31));
    for statement in ["LISTEN", "NOTIFY", "UNLISTEN"] {
        assert_eq!(run(&mut session, &format!("{statement} \"{long}\"")).await, statement);
        let notices = session.take_notices();
        let [notice] = notices.as_slice() else { panic!("{statement}: {notices:?}") };
        assert_eq!(notice.message, format!("identifier \"{long}\" will be truncated to \"{cut}\""));
        assert_eq!((notice.state.0, Severity::of_notice(notice)), ("42622", Severity::Notice));
        let channels = run(&mut session, "SELECT pg_listening_channels()").await;
        assert_eq!(channels, if statement == "UNLISTEN" { "(no rows)" } else { &cut });
    }
    check(&mut session, &format!("LISTEN \"{cut}\""), expect!["LISTEN"]).await;
    assert!(session.take_notices().is_empty());
}
