"""Is never loaded."""

import threading

threading.Event().wait()
