from omnigraph.extras import require

require("pyspark", extra="spark")
