"""The classes that users meet show what users use, and nothing else: in `dir()`, in `help()`, and in editors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from trio_mcp import Access, Client, Clients, Context, HttpBound, Request, Server

NAMES: Mapping[type, str] = {
    Access: "claims client_id expires_at principal scopes",
    Client: """
        aclose app_of call_tool complete discover extension get_prompt instructions is_lost list_prompts
        list_resource_templates list_resources list_tools listen notify open_call pages ping prompts read_resource
        request resource_templates resources revision roots_changed server_capabilities server_info set_log_level
        skill skills start_task statistics subscribe_resource task tools unsubscribe_resource wait_lost
    """,
    Clients: """
        aclose call_tool disabled failed find_tool get items keys listen names restart skills status tools values
    """,
    Context: """
        access ask_all client_capabilities client_info client_shows_apps close_stream deadline elicit
        elicitation_complete extension headers list_roots log meta notify once principal report_progress request
        require_extension resource_updated revision sample state url_elicitation_required
    """,
    HttpBound: "port stop url urls",
    Request: "context is_notification method params with_params",
    Server: """
        app asking background cache capabilities completion completions declare_extension experimental extensions info
        instructions lifespan limits method middleware needed_scopes notification on_stuck page page_size prompt
        prompts resource resource_updated resources revisions run serving serving_one skills snapshot tool tools
    """,
}


@pytest.mark.parametrize("shown", NAMES)
def test_a_class_of_the_interface_shows_only_what_users_use(shown: type) -> None:
    shown_names = [name for name in dir(shown) if not name.startswith("_") and hasattr(shown, name)]

    assert shown_names == NAMES[shown].split()
