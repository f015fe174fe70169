"""Faulty queries and what is said of them, as the contract's tables put it."""

A, B = "4e8e5957-649f-477b-9e5b-f1f75b21c03c", "aaaaaaaa-649f-477b-9e5b-f1f75b21c03c"
INVALID = "Invalid query string parameters"
BAD_VALUE = "placement.query.bad_value"
R = "resources=VCPU:1"

NEWEST, NUMBERED, ALL = (39,), (25, 30, 32), (25, 33, 36, 39)
OLD_FORM = "Expected 'required' parameter value of the form: HW_CPU_X86_VMX,CUSTOM_MAGIC."
NEW_FORM = "Expected 'required' parameter value of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC."
MULTIPLE = (
    "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid microversion."
)
NO_UUID = f"{INVALID}: Expected 'member_of' parameter to contain valid UUID(s)."
BADLY = (
    "Badly formed resources parameter. Expected resources query string parameter in form: "
    "?resources=VCPU:2,MEMORY_MB:1024. Got: "
)
NUMBER, WORD = "([1-9][0-9]*)?$", "([a-zA-Z0-9_-]{1,64})?$"
REGEXES = "does not match any of the regexes"

RESOURCELESS = "Resourceless suffixed group request should be specified in `same_subtree` query param:"
CONFLICTING = "Conflicting required and forbidden traits found in the following traits keys:"

# query, minor microversions, texts of the message, code
CANDIDATE_FAULTS = [
    ("", (10, 24), [INVALID, "'resources' is a required property"], None),
    ("limit=1", (10,), [INVALID, "'resources' is a required property"], None),
    (f"{R}&limit=1", (10, 15), [INVALID, "Additional properties are not allowed ('limit' was unexpected)"], None),
    (f"{R}&b=1&a=1", (10, 24), [INVALID, "('a', 'b' were unexpected)"], None),
    (f"{R}&in_tree={A}", (24,), ["'in_tree' was unexpected"], None),
    (
        f"{R}&resources01=VCPU:1",
        (25,),
        [
            INVALID,
            f"'resources01' {REGEXES}: '^member_of{NUMBER}', '^required{NUMBER}', '^resources{NUMBER}'",
        ],
        None,
    ),
    (
        f"{R}&b=1&a=1",
        (31,),
        ["'a', 'b' do not match any of the regexes: '^in_tree([1-9][0-9]*)?$', '^member_of([1-9][0-9]*)?$'"],
        None,
    ),
    (
        f"{R}&colour=1",
        (33, 39),
        [f"'colour' {REGEXES}: '^in_tree{WORD}', '^member_of{WORD}', '^required{WORD}', '^resources{WORD}'"],
        None,
    ),
    (f"{R}&in_tree={A}", (25, 30), ["'in_tree' does not match any of the regexes"], None),
    (f"{R}&root_required=A", (34,), ["'root_required' does not match any of the regexes"], None),
    (f"{R}&same_subtree=A", (35,), ["'same_subtree' does not match any of the regexes"], None),
    (f"resources_{'x' * 64}=VCPU:1", NEWEST, ["does not match any of the regexes"], None),
    (
        f"{R}&limit=cow&group_policy=bogus",
        NEWEST,
        [INVALID, "'cow' does not match '^[1-9][0-9]*$'", "Failed validating 'pattern'"],
        None,
    ),
    (f"{R}&limit=0", (16, 39), ["'0' does not match '^[1-9][0-9]*$'", "Failed validating 'pattern'"], None),
    (f"{R}&limit=-1", NEWEST, ["'-1' does not match"], None),
    (f"{R}&limit=cow&limit=1", NEWEST, [INVALID, "'cow' does not match"], None),
    (f"{R}&limit=cow&colour=1", NEWEST, ["'colour' does not match any"], None),
    (f"{R}&group_policy=bogus", ALL, [INVALID, "'bogus' is not one of ['none', 'isolate']"], None),
    # values of the whole request
    (
        f"{R}&root_required=A&root_required=B",
        NEWEST,
        ["Query parameter 'root_required' may be specified only once."],
        "placement.query.duplicate_key",
    ),
    (
        f"{R}&root_required=in:A,B",
        NEWEST,
        ["The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39."],
        None,
    ),
    (f"{R}&root_required=A,", NEWEST, [NEW_FORM, "Got an empty trait in: A,"], None),
    (
        f"{R}&root_required=B,A,!B",
        NEWEST,
        ["Conflicting required and forbidden traits found in root_required: B"],
        BAD_VALUE,
    ),
    (
        f"{R}&same_subtree=",
        NEWEST,
        ["Empty string (unsuffixed group) can not be specified in `same_subtree` "],
        BAD_VALUE,
    ),
    (
        f"{R}&same_subtree=_A,+",
        NEWEST,
        ["Empty string (unsuffixed group) can not be specified in `same_subtree` "],
        BAD_VALUE,
    ),
    # values of groups, the first faulty pair first
    ("resources=", NEWEST, [f"{BADLY}empty string."], None),
    ("resources=+", NEWEST, [f"{BADLY}empty string."], None),
    ("resources=VCPU", NEWEST, [f"{BADLY}VCPU."], None),
    ("resources=VCPU:1,", NEWEST, [f"{BADLY}."], None),
    ("resources=VCPU:1:2", NEWEST, [f"{BADLY}VCPU:1:2."], None),
    ("resources=VCPU:x", NEWEST, ["Requested resource VCPU expected positive integer amount. Got: x."], None),
    ("resources=VCPU:0", NEWEST, ["Requested resource VCPU requires amount >= 1. Got: 0."], None),
    ("resources=VCPU:x&resources=VCPU:1", NEWEST, ["Got: x."], None),
    (f"{R}&required1=,&resources=", NEWEST, ["Got an empty trait in: ,"], None),
    (f"{R}&resources=&required1=,", NEWEST, ["Got: empty string."], None),
    (f"{R}&required=", (17, 21), [f"{INVALID}: {OLD_FORM} Got an empty trait in: "], None),
    (f"{R}&required=", (22, 38, 39), [f"{INVALID}: {NEW_FORM} Got an empty trait in: "], None),
    (f"{R}&required=A,!", NEWEST, [NEW_FORM], None),
    (f"{R}&required=!A", (17, 21), [f"{OLD_FORM} Got: !A"], None),
    (
        f"{R}&required=in:A",
        (17, 38),
        ["The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39. Got: in:A"],
        None,
    ),
    (
        f"{R}&required=in:A,",
        NEWEST,
        ["value of the form: in:HW_CPU_X86_VMX,CUSTOM_MAGIC. Got an empty trait in: in:A,"],
        None,
    ),
    (
        f"{R}&required=in:A,!B",
        NEWEST,
        ["The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' does not support forbidden traits. Got: in:A,!B"],
        None,
    ),
    (f"{R}&member_of={A}&member_of={B}", (21, 23), ["Multiple member_of parameters are not supported"], None),
    (f"{R}&member_of={A},{B}", (21, 39), [f"{MULTIPLE} Got: {A},{B}"], None),
    (f"{R}&member_of=!{A},{B}", NEWEST, [MULTIPLE], None),
    (f"{R}&member_of=x", (21, 39), [f"{NO_UUID} Got: x"], None),
    (f"{R}&member_of=", NEWEST, [NO_UUID], None),
    (f"{R}&member_of=!!{A}", NEWEST, [f"{NO_UUID} Got: !{A}"], None),
    (f"{R}&member_of=in:{A},!{B}", NEWEST, [f"{NO_UUID} Got: !{B}"], None),
    (f"{R}&member_of=in:{A},+{B}", NEWEST, [NO_UUID], None),
    (f"{R}&member_of=!x", (21, 31), [NO_UUID], None),
    (
        f"{R}&member_of=!{A}",
        (21, 31),
        ["Forbidden member_of parameters are not supported in the specified microversion"],
        None,
    ),
    (
        f"{R}&resources1=VCPU:1&member_of1=!{A}",
        (31,),
        ["Forbidden member_of1 parameters are not supported in the specified microversion"],
        None,
    ),
    (f"{R}&in_tree=x", (31, 39), [f"{INVALID}: Expected 'in_tree' parameter to be a format of uuid. Got: x"], None),
    (f"{R}&in_tree=x&in_tree={A}", NEWEST, ["Got: x"], None),
    # cross checks
    (
        f"resources1=VCPU:1&required=A&required2=B&member_of3={A}",
        NUMBERED,
        [
            "All traits parameters must be associated with resources.  "
            "Found the following orphaned traits keys: required, required2"
        ],
        None,
    ),
    (
        f"resources1=VCPU:1&member_of={A}&member_of3={A}",
        NUMBERED,
        [
            "All member_of parameters must be associated with resources. "
            "Found the following orphaned member_of keys: member_of, member_of3"
        ],
        None,
    ),
    ("resources=VCPU:1&required1=!A", (25, 35), ["All request groups must specify resources."], None),
    (f"resources=VCPU:1&in_tree1={A}", (31, 35), ["All request groups must specify resources."], None),
    ("", (25, 35), ["At least one request group (`resources` or `resources{$S}`) is required."], None),
    (
        "",
        (36, 39),
        ["There must be at least one resources or resources[$S] parameter."],
        "placement.query.missing_value",
    ),
    (
        "required1=A&same_subtree=1",
        NEWEST,
        ["There must be at least one resources or resources[$S] parameter."],
        "placement.query.missing_value",
    ),
    (
        f"{R}&required_A=T",
        (36, 39),
        [f"{RESOURCELESS} bad group(s) - ['_A']."],
        BAD_VALUE,
    ),
    (
        "resources1=VCPU:1&required=T",
        (36, 39),
        [f"{RESOURCELESS} bad group(s) - ['']."],
        BAD_VALUE,
    ),
    (
        f"{R}&resources_A=VCPU:1&same_subtree=_A,_B",
        NEWEST,
        ["Real suffixes should be specified in `same_subtree`: ['_B'] not found in ['', '_A']."],
        BAD_VALUE,
    ),
    (
        f"{R}&required=B,A,!A,!B&resources1=VCPU:1&required1=C,!C,D",
        (25, 39),
        [f"{CONFLICTING} required: (A, B), required1: (C)"],
        None,
    ),
    (f"{R}&required=in:A,B&required=!A,!B", NEWEST, ["traits keys: required: (A, B)"], None),
    (
        "resources1=VCPU:1&resources2=VCPU:1",
        ALL,
        ['The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'],
        None,
    ),
    ("resources1=VCPU:1&required2=A&same_subtree=1,2", NEWEST, ['The "group_policy" parameter is required'], None),
]

# query, minor microversions, texts of the message
PROVIDER_FAULTS = [
    ("colour=red&uuid=x", (0, 39), [INVALID, "Additional properties are not allowed ('colour' was unexpected)"]),
    ("uuid=x", (0, 39), [INVALID, "'x' is not a 'uuid'"]),
    (f"uuid={A.replace('-', '')}", NEWEST, [INVALID]),
    (f"in_tree=+{A}", NEWEST, [INVALID]),
    (f"member_of={A}", (0, 2), ["'member_of' was unexpected"]),
    ("resources=VCPU:1", (3,), ["'resources' was unexpected"]),
    ("required=A", (17,), ["'required' was unexpected"]),
    ("resources1=VCPU:1", NEWEST, ["'resources1' was unexpected"]),
    ("resources=x&required=&member_of=x", NEWEST, [NO_UUID]),
    ("resources=x&required=", NEWEST, [NEW_FORM]),
    ("resources=VCPU", (4, 39), [f"{BADLY}VCPU."]),
    ("required=", (18, 21), [OLD_FORM]),
    ("required=!A", (18, 21), [f"{OLD_FORM} Got: !A"]),
    ("required=B,A,!A,!B,!C", (22, 39), [f"{CONFLICTING} required: (A, B)"]),
    ("required=A,!A&resources=x", (22, 39), [f"{BADLY}x."]),
    ("required=in:A,B&required=!A,!B", NEWEST, [f"{CONFLICTING} required: (A, B)"]),
    (f"member_of={A}&member_of={B}", (3, 23), ["Multiple member_of parameters are not supported"]),
    (f"member_of=!{A}", (3, 31), ["Forbidden member_of parameters are not supported in the specified microversion"]),
]

NO_ROOT_UUID = f"{INVALID}: Expected 'root_member_of' parameter to contain valid UUID(s)."
TWO = "resources_A=VCPU:1&resources_B=VCPU:1"
EMPTY_SUFFIX = "Empty string (unsuffixed group) can not be specified in"

# query, texts of the message, code: where Stead's own features are asked for
OWN_FAULTS = [
    (f"{R}&root_member_of=", [f"{NO_ROOT_UUID} Got: "], BAD_VALUE),
    (f"{R}&root_member_of=!", [NO_ROOT_UUID], BAD_VALUE),
    (f"{R}&root_member_of=!in:{A},x", [f"{NO_ROOT_UUID} Got: x"], BAD_VALUE),
    (f"{R}&root_member_of={A}&root_member_of=x", [f"{NO_ROOT_UUID} Got: x"], BAD_VALUE),
    (
        f"{R}&root_member_of=!{A},{B}",
        [f"Multiple values for 'root_member_of' must be prefixed with the 'in:' or '!in:' keyword. Got: !{A},{B}"],
        BAD_VALUE,
    ),
    (f"{TWO}&isolate=_A,", [f"{EMPTY_SUFFIX} `isolate`"], BAD_VALUE),
    (f"{TWO}&isolate=_A&group_policy=isolate", ["isolate and group_policy cannot be used together."], BAD_VALUE),
    (
        f"{TWO}&isolate=_A&isolate=_X",
        ["should be specified in `isolate`: ['_X'] not found"],
        BAD_VALUE,
    ),
    (f"{TWO}&same_subtree=_X&isolate=_Y", ["specified in `same_subtree`: ['_X'] not found"], BAD_VALUE),
    (f"{TWO}&same_subtree=_A,!", [f"{EMPTY_SUFFIX} `same_subtree`"], BAD_VALUE),
    (f"{TWO}&same_subtree=!_A,!_B", ['same_subtree needs at least one suffix without "!".'], BAD_VALUE),
    (f"{TWO}&same_subtree=_A,_B,!_B", ['_B is given both with and without "!"'], BAD_VALUE),
    (f"{TWO}&same_subtree=_A,!_X", ["specified in `same_subtree`: ['_X'] not found"], BAD_VALUE),
    (f"{TWO}&same_subtree=_A,!!_B", ["specified in `same_subtree`: ['!_B'] not found"], BAD_VALUE),
    (
        "resources_A=VCPU:1&required_B=X&resources_C=VCPU:1&same_subtree=_A",
        [f"{RESOURCELESS} bad group(s) - ['_B']"],
        BAD_VALUE,
    ),
    (
        f"{R}&can_split=VCPU&can_split=VCPU",
        ["Query parameter 'can_split' may be specified only once."],
        "placement.query.duplicate_key",
    ),
    (
        f"{R}&can_split=VCPU,",
        ["can_split names resource classes that the unsuffixed group does not request: ['']"],
        BAD_VALUE,
    ),
    (f"{TWO}&can_split=VCPU", ["that the unsuffixed group does not request: ['VCPU']"], BAD_VALUE),
    (f"{R}&in_subtree=x", [f"{INVALID}: Expected 'in_subtree' parameter to be a format of uuid. Got: x"], BAD_VALUE),
    (f"{R}&in_subtree=x&in_subtree={A}", ["parameter to be a format of uuid. Got: x"], BAD_VALUE),
    (f"{R}&same_subtree=&root_member_of=x", [f"{EMPTY_SUFFIX} `same_subtree`"], BAD_VALUE),
    (f"{R}&isolate=&root_member_of=x&can_split=A&can_split=A", [NO_ROOT_UUID], BAD_VALUE),
    (f"{R}&isolate=&can_split=A&can_split=A", [f"{EMPTY_SUFFIX} `isolate`"], BAD_VALUE),
    (f"{R}&can_split=A&required=X,!X", ["Conflicting required and forbidden traits"], None),
    (f"{R}&colour=1", [f"'colour' {REGEXES}: '^in_subtree{WORD}', '^in_tree{WORD}', '^member_of{WORD}'"], None),
]
