"""A REST catalog on loopback: the servlet of Iceberg's own tests, over tables in a database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.java_server import SPARK_JARS, jvm
from tests.maven import jars

_ICEBERG, _JETTY = "1.11.0", "12.1.14"
_JARS = (
    *(
        f"org.apache.iceberg:iceberg-{module}:{_ICEBERG}"
        for module in ("api", "bundled-guava", "common", "core")
    ),
    f"org.apache.iceberg:iceberg-core:{_ICEBERG}:tests",
    f"org.eclipse.jetty.ee10:jetty-ee10-servlet:{_JETTY}",
    *(
        f"org.eclipse.jetty:jetty-{module}:{_JETTY}"
        for module in ("http", "io", "security", "server", "session", "util")
    ),
    "jakarta.servlet:jakarta.servlet-api:6.0.0",
    "org.apache.httpcomponents.client5:httpclient5:5.6.1",
    "org.apache.httpcomponents.core5:httpcore5:5.4.1",
    "com.github.ben-manes.caffeine:caffeine:2.9.3",
    "com.h2database:h2:2.5.252",
)
#: The jars of pyspark that these need.
_OF_SPARK = ("avro-1.*", "hadoop-client-*", "jackson-*", "slf4j-api-*")


@contextmanager
def served(warehouse: Path) -> Iterator[str]:
    """The server's address.

    Args:
        warehouse: where its tables are; the server decides this, not those who make the tables.
    """
    of_spark = [path for pattern in _OF_SPARK for path in SPARK_JARS.glob(f"{pattern}.jar")]
    with jvm([*jars(*_JARS), *of_spark]) as java:
        settings = java.java.util.HashMap()
        settings["catalog-impl"] = "org.apache.iceberg.jdbc.JdbcCatalog"
        settings["uri"] = "jdbc:h2:mem:rest;DB_CLOSE_DELAY=-1"
        settings["jdbc.schema-version"] = "V1"
        settings["warehouse"] = f"file://{warehouse}"
        configuration = java.org.apache.hadoop.conf.Configuration()
        iceberg, jetty = java.org.apache.iceberg, java.org.eclipse.jetty
        catalog = iceberg.CatalogUtil.buildIcebergCatalog("rest", settings, configuration)
        adapter = iceberg.rest.RESTCatalogAdapter(catalog)
        servlet = jetty.ee10.servlet.ServletHolder(iceberg.rest.RESTCatalogServlet(adapter))
        handler = jetty.ee10.servlet.ServletContextHandler()
        handler.addServlet(servlet, "/*")
        server = jetty.server.Server(java.java.net.InetSocketAddress("127.0.0.1", 0))
        server.setHandler(handler)
        server.start()
        yield f"http://127.0.0.1:{server.getURI().getPort()}"
