//! Tables of features that this database does not have. They are empty, so that queries on them are no errors.

/// Names and columns, in the form of [`super::cell::TableOf`].
pub const WITHOUT_ROWS: &[(&str, &str)] = &[
    ("pg_shdescription", "objoid i, classoid i, description t"),
    ("pg_inherits", "inhrelid i, inhparent i, inhseqno i, inhdetachpending b"),
    (
        "pg_trigger",
        "oid i, tgrelid i, tgparentid i, tgname t, tgfoid i, tgtype i, tgenabled t, tgisinternal b, tgconstrrelid i, tgconstrindid i, tgconstraint i, tgdeferrable b, tginitdeferred b",
    ),
    ("pg_rewrite", "oid i, rulename t, ev_class i, ev_type t, ev_enabled t, is_instead b"),
    (
        "pg_collation",
        "oid i, collname t, collnamespace i, collowner i, collprovider t, collisdeterministic b, collcollate t",
    ),
    ("pg_policy", "oid i, polname t, polrelid i, polcmd t, polpermissive b, polroles l, polqual t, polwithcheck t"),
    (
        "pg_publication",
        "oid i, pubname t, pubowner i, puballtables b, pubinsert b, pubupdate b, pubdelete b, pubtruncate b",
    ),
    ("pg_publication_rel", "oid i, prpubid i, prrelid i, prqual t, prattrs l"),
    ("pg_publication_namespace", "oid i, pnpubid i, pnnspid i"),
    (
        "pg_statistic_ext",
        "oid i, stxrelid i, stxname t, stxnamespace i, stxowner i, stxstattarget i, stxkeys l, stxkind t",
    ),
    ("pg_range", "rngtypid i, rngsubtype i, rngmultitypid i, rngcollation i"),
    ("pg_depend", "classid i, objid i, objsubid i, refclassid i, refobjid i, refobjsubid i, deptype t"),
    ("pg_extension", "oid i, extname t, extowner i, extnamespace i, extrelocatable b, extversion t"),
    ("pg_language", "oid i, lanname t, lanowner i, lanispl b, lanpltrusted b"),
    ("pg_foreign_table", "ftrelid i, ftserver i, ftoptions a"),
    ("pg_foreign_server", "oid i, srvname t, srvowner i, srvfdw i, srvtype t"),
    ("pg_foreign_data_wrapper", "oid i, fdwname t, fdwowner i"),
    ("pg_event_trigger", "oid i, evtname t, evtevent t, evtowner i, evtenabled t"),
    ("pg_partitioned_table", "partrelid i, partstrat t, partnatts i, partattrs l"),
    (
        "pg_opclass",
        "oid i, opcmethod i, opcname t, opcnamespace i, opcowner i, opcfamily i, opcintype i, opcdefault b, opckeytype i",
    ),
    ("pg_operator", "oid i, oprname t, oprnamespace i, oprleft i, oprright i"),
    ("pg_aggregate", "aggfnoid i, aggkind t, aggnumdirectargs i"),
    ("pg_cast", "oid i, castsource i, casttarget i, castfunc i, castcontext t"),
    ("pg_auth_members", "oid i, roleid i, member i, grantor i, admin_option b"),
    ("pg_conversion", "oid i, conname t, connamespace i"),
    ("pg_ts_config", "oid i, cfgname t, cfgnamespace i"),
    ("pg_default_acl", "oid i, defaclrole i, defaclnamespace i, defaclobjtype t, defaclacl a"),
    ("pg_db_role_setting", "setdatabase i, setrole i, setconfig a"),
    (
        "pg_subscription",
        "oid i, subdbid i, subname t, subowner i, subenabled b, subbinary b, substream t, subtwophasestate t, subdisableonerr b, subpasswordrequired b, subrunasowner b, suborigin t, subpublications t, subsynccommit t, subconninfo t, subskiplsn t",
    ),
    ("pg_user_mappings", "umid i, srvid i, srvname t, umuser i, usename t, umoptions a"),
    ("pg_ts_dict", "oid i, dictname t, dictnamespace i, dictowner i, dicttemplate i, dictinitoption t"),
    ("pg_ts_parser", "oid i, prsname t, prsnamespace i"),
    ("pg_ts_template", "oid i, tmplname t, tmplnamespace i"),
    ("pg_opfamily", "oid i, opfmethod i, opfname t, opfnamespace i, opfowner i"),
    (
        "pg_amop",
        "oid i, amopfamily i, amoplefttype i, amoprighttype i, amopstrategy i, amoppurpose t, amopopr i, amopmethod i",
    ),
    ("pg_amproc", "oid i, amprocfamily i, amproclefttype i, amprocrighttype i, amprocnum i, amproc i"),
    ("pg_largeobject_metadata", "oid i, lomowner i, lomacl a"),
    ("pg_shdepend", "dbid i, classid i, objid i, objsubid i, refclassid i, refobjid i, deptype t"),
    ("pg_statistic_ext_data", "stxoid i, stxdinherit b"),
    ("pg_group", "groname t, grosysid i, grolist l"),
    ("pg_prepared_xacts", "transaction i, gid t, prepared t, owner t, database t"),
    (
        "freestone_triggers",
        "trigger_catalog t, trigger_schema t, trigger_name t, event_manipulation t, event_object_table t, action_statement t, action_timing t",
    ),
    ("pg_keywords", "word t, catcode t, barelabel b, catdesc t, baredesc t"),
    ("pg_locks", "locktype t, database i, relation i, pid i, mode t, granted b"),
];

/// Whether a table of the catalog is always empty.
pub fn is_empty(name: &str) -> bool {
    WITHOUT_ROWS.iter().any(|(known, _)| *known == name)
}
