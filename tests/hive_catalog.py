"""A Hive metastore on loopback: the one that comes with pyspark, over Derby in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

from py4j.protocol import Py4JError

from tests.java_server import SPARK_JARS, jvm


@contextmanager
def served(warehouse: Path) -> Iterator[str]:
    """The server's address.

    Args:
        warehouse: where its databases are.
    """
    # The option keeps Derby from writing its log into the current folder.
    with jvm([f"{SPARK_JARS}/*"], "-Dderby.stream.error.field=java.lang.System.err") as java:
        hive, thrift = java.org.apache.hadoop.hive, java.org.apache.thrift
        conf = hive.conf.HiveConf()
        conf.set("javax.jdo.option.ConnectionURL", "jdbc:derby:memory:metastore;create=true")
        conf.set("datanucleus.schema.autoCreateAll", "true")
        conf.set("datanucleus.connectionPoolingType", "HikariCP")
        conf.set("hive.metastore.schema.verification", "false")
        conf.set("hive.metastore.warehouse.dir", f"file://{warehouse}")
        # As docs/catalogs.md says, for tables whose columns come and go.
        conf.set("hive.metastore.disallow.incompatible.col.type.changes", "false")
        # The tables for its locks.
        hive.metastore.txn.TxnDbUtil.setConfValues(conf)
        hive.metastore.txn.TxnDbUtil.prepDb(conf)
        handler = hive.metastore.HiveMetaStore.newRetryingHMSHandler("tests", conf, True)
        # Its own way to start would listen everywhere.
        place = java.java.net.InetSocketAddress("127.0.0.1", 0)
        socket = thrift.transport.TServerSocket(place)
        arguments = thrift.server.TThreadPoolServer.Args(socket)
        arguments.processor(hive.metastore.TSetIpAddressProcessor(handler))
        server = thrift.server.TThreadPoolServer(arguments)

        def serve() -> None:
            # The JVM ends while it serves.
            with suppress(Py4JError):
                server.serve()

        Thread(target=serve, daemon=True).start()
        yield f"thrift://127.0.0.1:{socket.getServerSocket().getLocalPort()}"
