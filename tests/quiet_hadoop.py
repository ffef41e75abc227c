"""Hadoop in the tests' Spark, without what takes a sixth of the time of jobs on few rows.

It starts the program `chmod` twice for each file that Spark writes, and once for each folder. It
copies or sends the thousand defaults of its configuration for each file and task, although its code
has nearly all of them as well. Other processes of the tests have Hadoop as users have it.
"""

from __future__ import annotations

import json

from pyspark.sql import SparkSession

_LOCAL_FILES = """
package tests;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
  public LocalFiles() {
    super(new Raw());
  }

  public static class Raw extends RawLocalFileSystem {
    public void setPermission(Path path, FsPermission mode) throws IOException {
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(mode.toString()));
    }
  }
}
"""


def quieten(spark: SparkSession) -> None:
    """Lets Java set the modes of files, and drops the defaults that the code has."""
    jvm = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_LOCAL_FILES)
    with_files = hadoop.conf.Configuration(settings)
    with_files.setClassLoader(compiler.getClassLoader())
    with_files.set("fs.file.impl", "tests.LocalFiles")
    # From here on, whoever asks for the file system gets the one that is made now.
    hadoop.fs.FileSystem.closeAll()
    hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), with_files)
    # This loads its defaults now; later, they would bring back all others.
    hadoop.mapred.JobConf()
    written = jvm.java.io.StringWriter()
    hadoop.conf.Configuration.dumpConfiguration(settings, written)
    settings.clear()
    for setting in json.loads(written.toString())["properties"]:
        if not setting["resource"].endswith("-default.xml"):
            settings.set(setting["key"], setting["value"])
