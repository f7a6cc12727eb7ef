"""Small text files beside checkpoints, on every file system that Spark writes to."""

from typing import Any

from pyspark.sql import SparkSession

from penstock.pipeline.running.checkpoints import file_lister


class TextFiles:
    """A session of Spark Connect sees no files, and makes none."""

    def __init__(self, session: SparkSession) -> None:
        self.names = file_lister(session)
        self._session = session

    @property
    def has_some(self) -> bool:
        return getattr(self._session, "_jvm", None) is not None

    def read(self, path: str) -> str:
        java, files, place = self._at(path)
        stream = files.open(place)
        try:
            text: str = java.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
            return text
        finally:
            stream.close()

    def create(self, path: str, text: str, *, overwrites: bool = False) -> bool:
        """As a whole; False if it is there already."""
        java, files, place = self._at(path)
        draft = java.org.apache.hadoop.fs.Path(f"{path}.{java.java.util.UUID.randomUUID()}")
        stream = files.create(draft)
        stream.write(bytearray(text.encode()))
        stream.close()
        options = getattr(java.org.apache.hadoop.fs, "Options$Rename")
        how = self._session.sparkContext._gateway.new_array(options, 1)  # type: ignore[union-attr]
        how[0] = options.valueOf("OVERWRITE" if overwrites else "NONE")
        context = java.org.apache.hadoop.fs.FileContext.getFileContext(files.getUri(), self._configuration)
        try:
            context.rename(draft, place, how)
        except Exception:
            files.delete(draft, False)
            if overwrites or not files.exists(place):
                raise
            return False
        return True

    @property
    def _configuration(self) -> Any:
        return self._session._jsparkSession.sessionState().newHadoopConf()

    def _at(self, path: str) -> tuple[Any, Any, Any]:
        java = self._session._jvm
        place = java.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        return java, place.getFileSystem(self._configuration), place
