"""The parts of an error's detail that clients are known to look for. The rest of it is prose and may differ."""

import re

QUOTED = r"'[^']*'"
UUID = r"[0-9A-Fa-f-]{32,36}"

PHRASES = re.compile(
    "|".join(
        (
            # every route
            r"The resource could not be found",
            r"The method [A-Z]+ is not allowed for this resource\.",
            r"content-type header required",
            r"content-length header must be an integer",
            r"The media type \S+ is not supported, use application/json",
            r"Only application/json is provided",
            r"Policy does not allow \S+ to be performed",
            r"invalid version string: [\w.]*",
            r"Unacceptable version header: [\w.]*",
            # bodies and queries
            r"Malformed JSON:",
            r"JSON does not validate",
            r"Invalid query string parameters",
            rf"{QUOTED} is a required property",
            r"Failed validating '\w+' in schema\['properties'\]\['(?:total|min_unit|max_unit|step_size)'\](?=[ :])",
            r"Failed validating '\w+'",
            r"Additional properties are not allowed",
            rf"{QUOTED} was unexpected",
            r"do(?:es)? not match any of the regexes",
            r"'\^(?:member_of|required|resources|in_tree)\(\S+\)\?\$'",
            r"\S+ is less than the minimum of 1",
            rf"{QUOTED} does not match {QUOTED}",
            r"is not a 'uuid'",
            r"\S+ is not of type '\w+'",
            r"should be non-empty",
            r"has non-unique elements",
            rf"{QUOTED} is not one of \['none', 'isolate'\]",
            # providers
            r"Conflicting resource provider",
            r"Unable to create resource provider \"[^\"]*\"",
            r"parent provider UUID cannot be same as UUID",
            r"parent provider UUID does not exist",
            r"(?<!in inventories not found: )No resource provider with uuid \S+ found(?: for delete)?",
            r"re-parenting a provider is not currently allowed",
            r"un-parenting a provider is not currently allowed",
            r"creating loop in the provider tree is not allowed\.",
            rf"Unable to save resource provider {UUID}:",
            rf"Unable to delete parent resource provider {UUID}: It has child resource providers\.",
            rf"Unable to delete resource provider {UUID}: Resource provider has allocations\.",
            # query values
            r"Badly formed resources parameter. Expected resources query string parameter in form",
            r"Got: empty string\.",
            r"Got: [^ ]*(?= |$)",
            r"Requested resource \S+ expected positive integer amount\.",
            r"Requested resource \S+ requires amount >= 1\.",
            r"Invalid resource class in resources parameter",
            r"(?<!found for delete: )No such resource class \w+",
            r"Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword",
            r"Expected 'member_of' parameter to contain valid UUID\(s\)\.",
            r"Multiple member_of\S* parameters are not supported",
            r"Forbidden member_of\S* parameters are not supported in the specified microversion",
            r"Expected 'required' parameter value of the form: HW_CPU_X86_VMX,!?CUSTOM_MAGIC\.",
            r"The format 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' (?:only supported since microversion 1.39|does not support)",
            r"Expected 'in_tree' parameter to be a format of uuid",
            # candidates
            r"All traits parameters must be associated with resources\.",
            r"Found the following orphaned traits keys: \S+(?:, \S+)*",
            r"All member_of parameters must be associated with resources\.",
            r"Found the following orphaned member_of keys: \S+(?:, \S+)*",
            r"All request groups must specify resources\.",
            r"At least one request group \(`resources` or `resources\{\$S\}`\) is required\.",
            r"There must be at least one resources or resources\[\$S\] parameter\.",
            r"Resourceless suffixed group request should be specified in `same_subtree` query param",
            r"Real suffixes should be specified in `same_subtree`:",
            r"Empty string \(unsuffixed group\) can not be specified in `same_subtree`",
            r"Query parameter 'root_required' may be specified only once\.",
            r"Conflicting required and forbidden traits found in root_required: \S+",
            r"Conflicting required and forbidden traits found in the following traits keys:",
            r"The \"group_policy\" parameter is required when specifying more than one \"resources\{N\}\" parameter\.",
            # inventories
            r"Unable to create inventory for resource provider",
            r"Unable to update inventory for resource provider",
            r"The reserved value is greater than (?:or equal to )?total\.",
            r"[Uu]pdate conflict(?!: Inventory for)",
            r"resource provider generation conflict",
            r"Unknown resource class in inventory",
            rf"Inventory for {QUOTED} (?:on resource provider '[^']*' )?in use",
            r"No inventory of class \S+ (?:for \S+|found for delete)",
            r"No inventory record with resource class",
            r"Unable to delete inventory of class \S+:",
            # aggregates, traits, resource classes
            r"Resource provider's generation already changed\. Please update the generation and try again\.",
            r"Conflicting resource class already exists",
            r"Resource class already exists",
            r"Cannot update standard resource class \S+",
            r"Error in delete resource class",
            r"Cannot delete standard resource class",
            r"Class is in use in inventory",
            r"Badly formatted name parameter\. Expected name query string parameter in form: "
            r"\?name=\[in\|startswith\]:\[name1,name2\|prefix\]\. Got: \"[^\"]*\"",
            r"The query parameter \"associated\" only accepts \"true\" or \"false\"",
            r"The trait is invalid\. A valid trait must be no longer than 255 characters, start with the prefix "
            r"\"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \"_\"",
            r"Cannot delete standard trait",
            r"The trait \S+ is in use by a resource provider\.",
            r"No such trait",
            # allocations
            r"Malformed consumer_uuid",
            r"consumer generation conflict - expected (?:null|\d+) but got (?:None|-?\d+)",
            r"Allocation for resource provider '[^']*' that does not exist",
            r"Unable to allocate inventory",
            r"Inventory for '[^']*' on resource provider '[^']*' invalid",
            r"The requested amount would violate inventory constraints",
            r"The requested amount would exceed the capacity",
            r"No allocations for consumer '[^']*'",
        )
    )
)
MORE = {"POST /reshaper": re.compile(r"actual: \d+, given: -?\d+|update conflict")}
"""What clients look for on one route alone."""


def phrases(route: str, text: str) -> tuple[str, ...]:
    """What clients of *route* look for in *text*, sorted, each once."""
    found = PHRASES.findall(text) + (MORE[route].findall(text) if route in MORE else [])
    return tuple(sorted({LISTS.sub(_in_order, phrase) for phrase in found}))


LISTS = re.compile(r"'([^']*, [^']*)'(?=.*invalid$)")
"""Classes and providers in one refusal, which are named in no order."""


def _in_order(named: re.Match[str]) -> str:
    return f"'{', '.join(sorted(named[1].split(', ')))}'"
