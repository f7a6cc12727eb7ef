"""The console over HTTP: who is heard, what is answered, and streams that go on."""
