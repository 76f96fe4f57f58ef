"""stub"""
from codegen.merge import Merged
class Docs:
    def __init__(self, merged: Merged) -> None: self.merged = merged
    def of_class(self, name: str) -> str: return f"Doc {name}."
    def of_member(self, name: str, member: str) -> str: return ""
