"""Faces that other frameworks know, on top of the SDK. Each needs its extra.

langgraph   a store and a checkpointer for LangGraph: `pip install 'omnigraph[langgraph]'`
"""
