"""People's own tools, which no function on Lambda needs: the layer is built without this folder."""
