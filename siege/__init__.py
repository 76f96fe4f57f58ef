"""The siege: one server with defaults, an ordinary user, and everybody who attacks them, for some minutes.

1. Each party is a process: the authorization server, the server, the ordinary user, and one attacker after the other.
   The user, the attacker and the sender without a token have addresses of their own on this machine.
2. The user calls at a fixed pace and checks each answer. Its p99 during an attack may be ten times that at rest. The
   p99 at rest counts as at least 5 ms, so that the noise of a fast machine does not decide.
3. The attackers have the lowest priority, and a flood has few senders at a time: an attack is what costs the server
   more than it costs the attacker. That many senders share a processor is no attack.
4. No attacker may see the secret of the user, use what it has stolen, or be served what must be refused.
5. At the end the server gets one signal, while ordinary calls run and a handler goes on for ever.
"""
